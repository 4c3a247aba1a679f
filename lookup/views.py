"""The search endpoint: it reads like the order of checks, and the first failure answers."""

from http import HTTPMethod
from typing import Any, cast

from django.conf import settings
from rest_framework.exceptions import MethodNotAllowed
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts import credits, idempotency
from accounts.authentication import BodyTokenAuthentication
from accounts.models import ApiToken
from lookup import numbers, throttling
from lookup.parsers import require_json
from lookup.schema import SearchSchema, search_schema
from lookup.search import AllSourcesFailed, SearchResult, search
from lookup.serializers import SearchResponse


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
            # Quoted in DRF's sentence only when it is one of HTTP's own.
            raise MethodNotAllowed(str(request.method) if request.method in HTTPMethod.__members__ else "")
        require_json(request._request)
        request.data  # noqa: B018  (parsed here, so that a malformed body answers before a missing token)
        super().initial(request, *args, **kwargs)

    @search_schema
    def post(self, request: Request) -> Response:
        token = cast(ApiToken, request.auth)
        body = cast(dict[str, Any], request.data)
        self.number = number = numbers.parse(body.get("query"))
        key = idempotency.parse(request.headers.get("Idempotency-Key"))
        earlier = idempotency.recall(token=token, key=key, number=number) if key else None
        if earlier and earlier.body:
            return answer(credits.Charge(earlier.body, replayed=True))
        if not earlier and token.credits < 1:
            raise credits.NoCreditsLeft
        self.outcome = search(number, token_id=token.pk)
        if self.outcome.failed:
            raise AllSourcesFailed
        charge = credits.charge(
            token=token,
            request_id=request._request.request_id,  # type: ignore[attr-defined]
            number=number,
            answer=SearchResponse().to_representation(self.outcome),
            idempotency_key=key,
            cost=0 if self.outcome.empty and not settings.CHARGE_EMPTY else 1,
        )
        return answer(charge)

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        """Headers for operators (the body is the contract's), and the facts for the log line."""
        facts: dict[str, Any] = {}
        if self.rate_decision is not None:
            for name, value in throttling.headers(self.rate_decision).items():
                response.headers[name] = value
            facts["token"] = cast(ApiToken, request.auth).pk
        if self.number is not None:
            facts["number"] = numbers.mask(self.number)
        if self.outcome is not None:
            response.headers["Server-Timing"] = server_timing(self.outcome)
            facts |= {slot: result.word for slot, result in self.outcome.slots.items()}
        request._request.log_facts = facts  # type: ignore[attr-defined]
        return super().finalize_response(request, response, *args, **kwargs)


def answer(charge: credits.Charge) -> Response:
    return Response(charge.body, headers={"Idempotent-Replayed": "true"} if charge.replayed else None)


def server_timing(result: SearchResult) -> str:
    """What each slot did and how long it took, in milliseconds (W3C Server Timing)."""
    return ", ".join(
        f'{slot};desc="{outcome.word}";dur={outcome.elapsed_s * 1000:.1f}' for slot, outcome in result.slots.items()
    )
