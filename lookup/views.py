"""The search endpoint: it reads like the order of checks, and the first failure answers."""

import time
from typing import Any, cast

from django.conf import settings
from django.http import HttpResponse, JsonResponse
from rest_framework.exceptions import MethodNotAllowed
from rest_framework.request import Request
from rest_framework.views import APIView

from accounts import activity, credits, idempotency
from accounts.authentication import BodyTokenAuthentication
from accounts.models import ApiToken
from lookup import numbers, throttling
from lookup.parsers import require_json
from lookup.schema import SearchSchema, search_schema
from lookup.search import AllSourcesFailed, SearchResult, search
from lookup.serializers import SearchResponse

# One for all: making a serializer costs more than using it.
_ANSWER = SearchResponse()
_REFUSALS = {401: "unauthorized", 403: "no_credits", 429: "rate_limited"}


class SearchView(APIView):
    """Who is calling? A new answer costs one credit."""

    http_method_names = ["post"]
    authentication_classes = [BodyTokenAuthentication]
    throttle_classes = [throttling.TokenThrottle]
    schema = SearchSchema()
    rate_decision: throttling.Decision | None = None
    number: str | None = None
    outcome: SearchResult | None = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Method, content type, body; then DRF's own: whose token (401), how often (429)."""
        if request.method != "POST":
            raise MethodNotAllowed(str(request.method))
        require_json(request._request)
        request.data  # noqa: B018  (parsed here, so that a malformed body answers before a missing token)
        super().initial(request, *args, **kwargs)

    @search_schema
    def post(self, request: Request) -> JsonResponse:
        token = cast(ApiToken, request.auth)
        body = cast(dict[str, Any], request.data)
        self.number = number = numbers.parse(body.get("query"))
        key = idempotency.parse(request.META.get("HTTP_IDEMPOTENCY_KEY"))
        claim = None
        if key:
            begun = idempotency.begin(token=token, key=key, number=number, can_pay=token.credits >= 1)
            if isinstance(begun, idempotency.Replay):
                return answer(credits.Charge(begun.body, replayed=True))
            claim = begun
        if claim is None and token.credits < 1:
            raise credits.NoCreditsLeft
        deadline = time.monotonic() + settings.SEARCH_DEADLINE_S
        with idempotency.released_on_failure(claim):
            self.outcome = search(number, token_id=token.pk)
            if self.outcome.failed:
                raise AllSourcesFailed
            charge = credits.charge(
                token=token,
                request_id=request._request.request_id,  # type: ignore[attr-defined]
                number=number,
                answer=_ANSWER.to_representation(self.outcome),
                claim=claim,
                cost=0 if self.outcome.empty and not settings.CHARGE_EMPTY else 1,
                deadline=deadline,
            )
        return answer(charge)

    def finalize_response(self, request: Request, response: HttpResponse, *args: Any, **kwargs: Any) -> Any:
        """Headers for operators (the body is the contract's), and the facts for the log line."""
        facts: dict[str, Any] = {}
        if self.rate_decision is not None:
            for name, value in throttling.headers(self.rate_decision).items():
                response.headers[name] = value
            facts["token"] = cast(ApiToken, request.auth).pk
        if self.number is not None:
            facts["number"] = numbers.mask(self.number)
        if self.outcome is not None:
            if self.outcome.failed or (response.status_code == 200 and "Idempotent-Replayed" not in response.headers):
                # What was not paid for is not disclosed: on a 4xx it would say whether the number was found.
                response.headers["Server-Timing"] = server_timing(self.outcome)
            facts |= {slot: result.word for slot, result in self.outcome.slots.items()}
        request._request.log_facts = facts  # type: ignore[attr-defined]
        activity.count(token_id=facts.get("token"), outcome=self.ended_as(response))
        return super().finalize_response(request, cast(Any, response), *args, **kwargs)

    def ended_as(self, response: HttpResponse) -> str:
        """One of activity.OUTCOMES."""
        if response.status_code >= 500:
            return "failed"
        if response.status_code == 429 and self.rate_decision is None:
            return "unauthorized"
        if response.status_code != 200:
            return _REFUSALS.get(response.status_code, "invalid")
        if "Idempotent-Replayed" in response.headers or self.outcome is None:
            return "replayed"
        return activity.answered(
            found=self.outcome.found, degraded=self.outcome.degraded, charge_empty=settings.CHARGE_EMPTY
        )


def answer(charge: credits.Charge) -> JsonResponse:
    return JsonResponse(
        charge.body,
        json_dumps_params={"ensure_ascii": False, "separators": (",", ":")},
        headers={"Idempotent-Replayed": "true"} if charge.replayed else None,
    )


def server_timing(result: SearchResult) -> str:
    """What each slot did and how long it took, in milliseconds (W3C Server Timing)."""
    return ", ".join(
        f'{slot};desc="{outcome.word}";dur={outcome.elapsed_s * 1000:.1f}' for slot, outcome in result.slots.items()
    )
