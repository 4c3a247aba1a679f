"""POST /callerid/search. `SearchView` shows the order of the checks; the first one that fails determines the response.

callerid_project.errors maps each exception to the response's status and detail and to the request's outcome.
"""

import time
from typing import Any, cast

import msgspec
from django.conf import settings
from django.http import HttpResponse
from rest_framework.exceptions import MethodNotAllowed, Throttled
from rest_framework.request import Request

from accounts import charging, idempotency, request_statistics
from accounts.models import ActiveToken
from core import numbers
from core.views import AsyncAPIView
from lookup import test_mode, throttling
from lookup.authentication import SearchAuthentication
from lookup.parsers import require_json
from lookup.recording import SearchRecord, record
from lookup.schema import SearchSchema, search_schema
from lookup.search import AllSourcesFailed, SearchResult, search
from lookup.serializers import search_data


class SearchView(AsyncAPIView):
    """Look up a phone number. A new answer costs one credit, unless the token is a test token."""

    http_method_names = ["post"]
    authentication_classes = [SearchAuthentication]
    throttle_classes = [throttling.TokenThrottle]
    schema = SearchSchema()

    #: One of accounts.request_statistics.OUTCOMES: `post` sets an answer's, the error table that of an exception.
    outcome = "failed"
    token: ActiveToken | None = None
    number: str | None = None
    result: SearchResult | None = None
    #: Set once a credit was taken.
    charge: charging.ChargedAnswer | None = None
    replayed = False

    async def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Check method (405), content type (415), body (400, 413); then, as DRF does, token (401), rate limit (429)."""
        method = request.META["REQUEST_METHOD"]  # request.method is in capitals, but methods are case-sensitive
        if method != "POST":
            raise MethodNotAllowed(method)
        require_json(request._request)
        request.data  # noqa: B018  (parsed here, so that a malformed body is reported before a missing token)
        await super().initial(request, *args, **kwargs)

    async def perform_authentication(self, request: Request) -> None:  # type: ignore[override]
        await super().perform_authentication(request)
        self.token = cast(ActiveToken, request.auth)

    @search_schema
    async def post(self, request: Request) -> HttpResponse:
        """Check the number, the Idempotency-Key and the balance; search; charge."""
        token = cast(ActiveToken, request.auth)
        self.number = number = numbers.parse(cast(dict[str, Any], request.data).get("query"))
        can_pay = token.is_test or token.credits >= 1
        claim = None
        if key := idempotency.parse(request.META.get("HTTP_IDEMPOTENCY_KEY")):
            begun = await idempotency.begin(token=token, key=key, number=number, can_pay=can_pay)
            if isinstance(begun, idempotency.Replay):
                return self._replay(begun.body)
            claim = begun
        if claim is None and not can_pay:
            raise charging.NoCreditsLeft
        deadline = time.monotonic() + settings.SEARCH_DEADLINE_S
        try:
            if token.is_test:
                self.result = result = await self._search_in_test_mode(number)
            else:
                self.result = result = await search(number, request.number_rows)  # type: ignore[attr-defined]
            if result.failed:
                self.headers["Server-Timing"] = server_timing(result)
                raise AllSourcesFailed
            charged = not token.is_test and (settings.CHARGE_EMPTY or result.found > 0)
            body = {"success": True, "data": search_data(result)}
            if charged:
                answer = await charging.charge(
                    token=token,
                    request_id=request._request.request_id,  # type: ignore[attr-defined]
                    number=number,
                    answer=body,
                    claim=claim,
                    deadline=deadline,
                )
            else:
                answer = await charging.answer_without_charge(token=token, answer=body, claim=claim)
        except BaseException:
            if claim is not None:
                await idempotency.release_after_failure(claim)
            raise
        if answer.replayed:
            return self._replay(answer.body)
        if charged:
            self.charge = answer
        self.outcome = request_statistics.answer_outcome(found=result.found, degraded=result.degraded, charged=charged)
        # A refused charge has none: it would disclose whether the number was found, which was not paid for.
        self.headers["Server-Timing"] = server_timing(result)
        return _json(answer.body)

    async def _search_in_test_mode(self, number: str) -> SearchResult:
        try:
            return await test_mode.search(number)
        except Throttled:
            self.headers["RateLimit"] = throttling.rate_limit_header(0, test_mode.RETRY_AFTER_S)
            raise

    def _replay(self, body: dict[str, Any]) -> HttpResponse:
        self.outcome, self.replayed = "replayed", True
        self.headers["Idempotent-Replayed"] = "true"
        return _json(body)

    def finalize_response(self, request: Request, response: HttpResponse, *args: Any, **kwargs: Any) -> Any:
        """Record the request, and hand its facts to the log line."""
        search = SearchRecord(
            token=self.token,
            request_id=request._request.request_id,  # type: ignore[attr-defined]
            status=response.status_code,
            outcome="test" if self.token and self.token.is_test else self.outcome,
            replayed=self.replayed,
            elapsed_s=time.perf_counter() - request.META["callerid.received_at"],
            number=self.number,
            charge=self.charge,
            slots=self.result.slots if self.result else {},
        )
        request._request.log_facts = record(search)  # type: ignore[attr-defined]
        # DRF's request refers to itself there: the garbage collector would have to find each search's objects.
        request.parser_context.clear()
        return super().finalize_response(request, cast(Any, response), *args, **kwargs)


def _json(body: dict[str, Any]) -> HttpResponse:
    return HttpResponse(msgspec.json.encode(body), content_type="application/json")


def server_timing(result: SearchResult) -> str:
    """Each slot's status and duration in milliseconds (W3C Server Timing)."""
    return ", ".join(
        f'{slot};desc="{outcome.status}";dur={outcome.elapsed_s * 1000:.1f}' for slot, outcome in result.slots.items()
    )
