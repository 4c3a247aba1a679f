"""What proxies and frameworks send instead of a vendor: no rule of a preset may take it for the vendor's answer."""

import json
from collections.abc import Collection, Iterator
from http.client import responses
from typing import Any

# What proxies and frameworks send. A `when` that is true for one is refused. `[]` is not here: some vendors mean 'not
# found' by it. The bodies that depend on the status are in `of`.
_ALWAYS: tuple[Any, ...] = (None, {}, "", 0, True, "<!doctype html><html><body>Not Found</body></html>")
# Those of XML, as lookup.vendors.xml reads them: a page without a document type, and an object store's error.
_ALWAYS += ({"html": {"head": {"title": "Not Found"}, "body": {"h1": "Not Found"}}},)
_ALWAYS += ({"Error": {"Code": "AccessDenied", "Message": "Access Denied", "RequestId": "0", "HostId": "0"}},)
_USUAL_STATUSES = (200, 400, 401, 403, 404, 405, 410, 422, 429, 500, 502, 503, 504)
# google.rpc.Code, where it is not the reason phrase.
_GOOGLE_STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED"}
_GOOGLE_STATUS |= {500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"}


def of(statuses: Collection[int]) -> Iterator[Any]:
    """JSON and plain text: for these statuses, or else the usual ones, with each common spelling of the reason phrase,
    and for other usual ones, which a body may have in spite of its status, with the phrase itself."""
    yield from _ALWAYS
    statuses = statuses or _USUAL_STATUSES
    for status in {*statuses, *_USUAL_STATUSES}:
        success, phrase = status < 400, responses.get(status, "Unknown Error")
        snake = phrase.lower().replace(" ", "_")
        spellings = [phrase, phrase.capitalize(), phrase.lower(), snake, snake.upper(), phrase.replace(" ", "")]
        spellings += [f"{phrase}.", f"{phrase.capitalize()}.", f"{status} {phrase}", f"{status} page not found"]
        spellings += [_GOOGLE_STATUS.get(status, phrase), "success" if success else "error", str(status)]
        for reason in dict.fromkeys(spellings if status in statuses else [phrase]):
            # Plain text, and one member alone; {"detail": …} is Django REST Framework's.
            yield from (reason, f"<html><head><title>{reason}</title></head><body><h1>{reason}</h1></body></html>")
            yield from ({name: reason} for name in ("detail", "error", "message", "msg", "reason", "status", "title"))
            # FastAPI, for a parameter.
            yield {"detail": [{"loc": ["path"], "msg": reason, "type": reason}]}
            # Spring.
            spring = {"timestamp": "2026-01-01T00:00:00.000+00:00", "status": status, "error": reason, "path": "/"}
            yield from (spring, spring | {"message": reason})
            # Nest and Express.
            nest = {"statusCode": status, "message": reason}
            yield from (nest, nest | {"error": reason}, {"error": reason, "message": reason})
            # Problem details (RFC 9457), with and without the members that are optional.
            problem = {"title": reason, "status": status}
            typed = problem | {"type": "about:blank"}
            yield from (problem, typed, typed | {"traceId": "0"}, typed | {"detail": reason, "instance": "/"})
            # Google.
            google = {"code": status, "message": reason, "status": reason}
            yield from ({"error": google}, {"error": google | {"errors": [{"message": reason, "reason": reason}]}})
            # JSON:API and GraphQL.
            json_api = {"status": str(status), "title": reason}
            yield from ({"errors": [json_api]}, {"errors": [json_api | {"code": reason, "detail": reason}]})
            yield {"errors": [{"message": reason}]}
            # Simple ones.
            for code in (status, str(status), reason):
                simple = {"code": code, "message": reason}
                yield from (simple, {"code": code, "msg": reason}, {"code": code, "error": reason}, {"error": simple})
            result = "success" if success else "error"
            for flag in ({"success": success}, {"ok": success}, {"status": result}, {"status": status}):
                yield from (flag, flag | {"message": reason}, flag | {"error": reason})
                yield from (flag | {"code": status, "message": reason}, flag | {"error": simple})
            yield from ({"error": not success}, {"error": not success, "message": reason})


def folded(body: Any) -> Any:
    """A body, or its text, in lower case: JSON as a document, and everything else as text."""
    text = (body if isinstance(body, str) else json.dumps(body)).strip().casefold()
    try:
        return json.loads(text)
    except ValueError:
        return text
