"""OpenAPI description of the search: every status, header and example."""

from typing import Any

from django.conf import settings
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema

from accounts.charging import TEST_BALANCE
from lookup import test_mode
from lookup.answers import Answer, Found, NotFound
from lookup.search import SearchResult, SlotResult
from lookup.serializers import ErrorResponse, SearchRequest, SearchResponse, search_response


def _answer(title: str, number: str, source_a: Answer, source_b: Answer, credits_remaining: int) -> OpenApiExample:
    result = SearchResult(number, {"source_a": SlotResult(source_a, 0.0), "source_b": SlotResult(source_b, 0.0)})
    value = {**search_response.to_representation(result), "credits_remaining": credits_remaining}
    return OpenApiExample(title, value, response_only=True, status_codes=["200"])


_NAME = "Musterhaus Advisors"
_ANSWERS = [
    _answer("Both sources have results", "493023125555", Found(_NAME, "Berlin"), Found(_NAME, spam=True), 99),
    _answer("Only one source has a result", "12025550143", Found(location="Washington D.C."), NotFound(), 98),
]
_LIMIT, _WINDOW_S = settings.RATE_LIMIT
_TEST_LIMIT, _TEST_WINDOW_S = settings.TEST_RATE_LIMIT
_FAILURES, _FAILURE_WINDOW_S = settings.AUTH_FAILURE_RATE
_MAX_BODY = f"{settings.MAX_BODY_BYTES // 1024} KiB"
_ERRORS = {
    400: (
        "The body or `query` or `Idempotency-Key` is not valid.",
        [
            "Malformed JSON body",
            "JSON body must be an object",
            "Invalid phone number (must be a string)",
            "Invalid phone number (must contain only digits)",
            "Invalid phone number (must have 7 to 15 digits)",
            "Invalid phone number (must start with a country code)",
            "Invalid Idempotency-Key",
            "Idempotency-Key was used with another query",
        ],
    ),
    401: ("The token is missing, malformed, forged, expired or revoked.", ["Invalid or missing token"]),
    403: ("The token has no credits left.", ["No credits remaining"]),
    405: (
        "The method is not POST. The message quotes standard methods only.",
        ['Method "GET" not allowed.', "Method not allowed."],
    ),
    413: (f"The body is larger than {_MAX_BODY}.", ["Request body too large"]),
    415: (
        "The content type is not application/json. The message quotes well-known media types only.",
        ['Unsupported media type "text/plain" in request.', "Unsupported media type."],
    ),
    429: (
        (
            f"More than {_LIMIT} requests by this token within {_WINDOW_S} seconds, unless it has a limit of its own; "
            f"or, without the RateLimit headers, more than {_FAILURES} requests without a valid token from one address "
            f"within {_FAILURE_WINDOW_S} seconds."
        ),
        ["Rate limit exceeded"],
    ),
    500: (
        "An internal error, or both sources failed. Nothing was charged, unless the database connection was lost.",
        ["Internal server error"],
    ),
    503: (
        "Too many requests at once, or the database completes no commits: retry after `Retry-After`. It costs nothing.",
        ["Service overloaded"],
    ),
}
_WITH_VALID_TOKEN = [200, 400, 403, 429, 500]
_ALL = [200, *_ERRORS]


def _header(
    name: str, description: str, statuses: list[int] | None = None, type_: Any = OpenApiTypes.STR
) -> OpenApiParameter:
    """A header of the responses with these statuses; None: of the request."""
    return OpenApiParameter(name, type_, OpenApiParameter.HEADER, description=description, response=statuses or False)


_HEADERS = [
    _header("X-Request-ID", "The request's id: yours if it was valid, otherwise a new one.", _ALL),
    _header(
        "RateLimit-Policy",
        f'The token\'s limit, by default `"token";q={_LIMIT};w={_WINDOW_S}`; operators can set another `q`. '
        "Absent without a valid token.",
        _WITH_VALID_TOKEN,
    ),
    _header(
        "RateLimit",
        "Requests left, and seconds until the oldest one leaves the window. Absent without a valid token.",
        _WITH_VALID_TOKEN,
    ),
    _header(
        "Server-Timing",
        "Each source's result (`found`, `not-found`, `failed`) and duration, if the sources were called.",
        [200, 500],
    ),
    _header("Idempotent-Replayed", "`true` on a response that was charged before.", [200]),
    _header("Retry-After", "Seconds after which to retry.", [429, 503], OpenApiTypes.INT),
    _header("Allow", "`POST`", [405]),
    _header("WWW-Authenticate", '`JWT realm="callerid"`', [401]),
]
_SENT_HEADERS = [
    _header(
        "Idempotency-Key",
        "A retry with the same key within 24 hours gets the same response and is not charged.",
        type_={"type": "string", "pattern": "^[\\x21-\\x7e]{1,255}$"},
    ),
    _header(
        "X-Request-ID",
        "Your id for the request, returned in the response and written to the operator's log and ledger: 1 to 64 "
        "characters of `A-Z a-z 0-9 . _ -`, such as a UUID. Any other value is replaced by a new id, and so is one "
        "that holds 7 or more digits in a row, which may be a phone number, and is no UUID.",
    ),
]


search_schema = extend_schema(
    operation_id="search",
    summary="Search a phone number",
    description=(
        "Returns what two independent sources know about a number, and charges one credit. Unknown fields are absent; "
        "a source without a result is `{}`. The request body may have at most "
        f"{_MAX_BODY}; members other than `api_key` and `query` are ignored.\n\n"
        "**Test mode.** A test token, whose JWT has the claim `test`, is never charged and calls no source: the number "
        f"alone decides the answer. `credits_remaining` is always {TEST_BALANCE}, and the token may make {_TEST_LIMIT} "
        f"requests within {_TEST_WINDOW_S} seconds.\n\n{test_mode.table()}"
    ),
    tags=["callerid"],
    request=SearchRequest,
    parameters=[*_SENT_HEADERS, *_HEADERS],
    responses={
        200: OpenApiResponse(SearchResponse, "The results of both sources."),
        **{status: OpenApiResponse(ErrorResponse, description) for status, (description, _) in _ERRORS.items()},
    },
    examples=[
        OpenApiExample("A search", {"api_key": "<API_KEY>", "query": "493023125555"}, request_only=True),
        *_ANSWERS,
        *(
            OpenApiExample(detail, {"detail": detail}, response_only=True, status_codes=[str(status)])
            for status, (_, details) in _ERRORS.items()
            for detail in details
        ),
    ],
)
