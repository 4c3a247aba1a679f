"""POST /callerid/search. `SearchView` shows the order of the checks; the first one that fails determines the response.

callerid_project.errors maps each exception to the response's status and detail and to the request's outcome.
"""

import time
from functools import partial
from typing import Any, cast

import msgspec
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from rest_framework.exceptions import AuthenticationFailed, Throttled

from accounts import charging, idempotency, request_statistics, tokens
from accounts.models import ActiveToken
from core import attempt_limits, commits, db, loop, numbers, tracing
from core.postgresql import replication
from core.views import AsyncAPIView
from lookup import rate_limit, test_mode
from lookup.parsers import SearchParser
from lookup.recording import SearchRecord
from lookup.schema import search_schema
from lookup.search import BothSlotsFailed, SearchResult, queries, search
from lookup.serializers import search_response
from phonebook.number_query import NumberRows

KEY_HEADER = "HTTP_IDEMPOTENCY_KEY"


class SearchView(AsyncAPIView):
    """Look up a phone number. A new answer costs one credit, unless the token is a test token."""

    http_method_names = ["post"]
    parser_classes = [SearchParser]
    permission_classes = []  # the schema then has no security scheme: the token is in the body

    #: One of accounts.request_statistics.OUTCOMES: `post` sets an answer's, the error table that of an exception.
    outcome = "failed"

    def setup(self, request: Any, *args: Any, **kwargs: Any) -> None:
        super().setup(request, *args, **kwargs)
        self.record = SearchRecord(request.request_id, idempotency_key=KEY_HEADER in request.META)

    @search_schema
    async def post(self, request: HttpRequest) -> HttpResponse:
        """Check body, token, database, rate limit, number, Idempotency-Key and balance; search; charge."""
        db.deadline.set(time.monotonic() + idempotency.max_search_s())
        body = self.parse(request)
        number = _parsed(body.get("query"))
        rows = NumberRows(number) if isinstance(number, str) else None  # not read yet
        try:
            jti = tokens.signed_jti(body.get("api_key"))
            with commits.process_commits.attempt():
                # Its row is read together with `rows`.
                read = partial(rows.read, queries()) if rows else db.afetch_one
                self.record.token = token = await tokens.active(jti, read)
                await replication.require_commits()
                await self._throttle(token)
                if isinstance(number, numbers.InvalidNumber):  # only a caller with a valid token learns that
                    raise number
                self.record.number = number
                key = idempotency.parse(request.META.get(KEY_HEADER))
                return await self._search_once(request, token, number, rows, key)
        except tokens.InvalidToken as error:
            await _count_failure(request)
            raise AuthenticationFailed from error  # the same for every cause

    async def _throttle(self, token: ActiveToken) -> None:
        """Count the request, whatever its outcome will be. Raises Throttled."""
        limit, window_s = tokens.rate_limit(token)
        with tracing.span("rate limit"):
            decision = await rate_limit.token_log.hit(token.pk, limit, window_s)
        # Structured fields as in draft-ietf-httpapi-ratelimit-headers.
        self.headers["RateLimit-Policy"] = f'"token";q={limit};w={window_s}'
        self._set_rate_limit(decision.remaining, decision.wait_s)
        if not decision.allowed:
            raise Throttled(decision.wait_s)

    def _set_rate_limit(self, remaining: int, wait_s: int) -> None:
        self.headers["RateLimit"] = f'"token";r={remaining};t={wait_s}'

    async def _search_once(
        self, request: HttpRequest, token: ActiveToken, number: str, rows: NumberRows | None, key: str | None
    ) -> HttpResponse:
        """The answer; with the `key` of an earlier search, its answer. Raises NoCreditsLeft."""
        can_pay = token.is_test or token.credits >= 1
        claim = None
        if key:
            begun = await idempotency.begin(token=token, key=key, number=number, can_pay=can_pay)
            if isinstance(begun, idempotency.Replay):
                return self._replay(begun.body)
            claim = begun
        if claim is None and not can_pay:
            raise charging.NoCreditsLeft
        try:
            return await self._search(request, token, number, rows, claim)
        except BaseException:
            if claim is not None:
                await idempotency.release_after_failure(claim)
            raise

    async def _search(
        self,
        request: HttpRequest,
        token: ActiveToken,
        number: str,
        rows: NumberRows | None,
        claim: idempotency.Claim | None,
    ) -> HttpResponse:
        """The answer, charged unless `token` is a test token."""
        deadline = cast(float, db.deadline.get()) - idempotency.MARGIN_S  # for the charge
        try:
            result = await (test_mode.search(number) if token.is_test else search(number, rows, token.pk, deadline))
        except Throttled:  # simulated
            self._set_rate_limit(0, test_mode.RETRY_AFTER_S)
            raise
        self.record.slots = result.slots
        if result.failed:
            self.headers["Server-Timing"] = server_timing(result)
            raise BothSlotsFailed
        is_empty_charged = settings.CHARGE_EMPTY and not result.is_impossible
        charged = not token.is_test and (is_empty_charged or result.found > 0)
        body = search_response.to_representation(result)
        if charged:
            answer = await charging.charge(
                token=token,
                request_id=request.request_id,  # type: ignore[attr-defined]
                number=number,
                answer=body,
                claim=claim,
            )
        else:
            answer = await charging.answer_without_charge(token=token, answer=body, claim=claim)
        if answer.replayed:
            return self._replay(answer.body)
        if charged:
            self.record.charge = answer
        self.outcome = request_statistics.answer_outcome(found=result.found, degraded=result.degraded, charged=charged)
        # A refused charge has none: it would disclose whether the number was found, which was not paid for.
        self.headers["Server-Timing"] = server_timing(result)
        return _json(answer.body)

    def _replay(self, body: dict[str, Any]) -> HttpResponse:
        self.outcome, self.record.replayed = "replayed", True
        self.headers["Idempotent-Replayed"] = "true"
        return _json(body)

    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Record the request, and hand its facts to the log line."""
        record = self.record
        record.status = response.status_code
        record.outcome = "test" if record.token and record.token.is_test else self.outcome
        record.elapsed_s = time.perf_counter() - request.META["callerid.received_at"]
        request.log_facts = record.report()
        return super().finalize_response(request, response)

    def get_authenticate_header(self, request: Any) -> str:
        return 'JWT realm="callerid"'


def _parsed(query: object) -> str | numbers.InvalidNumber:
    """The number, or why it is none."""
    try:
        return numbers.parse(query)
    except numbers.InvalidNumber as error:
        return error


async def _count_failure(request: HttpRequest) -> None:
    """Count a failed authentication. Raises TooManyAttempts for a client that exceeds AUTH_FAILURE_RATE."""
    attempt_limits.FAILED_AUTHENTICATIONS.inc("token")
    count = partial(attempt_limits.count_attempt, request, group="api", rate=settings.AUTH_FAILURE_RATE)
    await loop.run_in_thread(count)


def _json(body: dict[str, Any]) -> HttpResponse:
    return HttpResponse(msgspec.json.encode(body), content_type="application/json")


def server_timing(result: SearchResult) -> str:
    """Each slot's status and duration in milliseconds (W3C Server Timing)."""
    return ", ".join(
        f'{slot};desc="{outcome.status}";dur={outcome.elapsed_s * 1000:.1f}' for slot, outcome in result.slots.items()
    )
