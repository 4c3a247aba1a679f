"""The body of an HTTP request: all of it, or none."""

from django.http import UnreadablePostError
from django.http.request import HttpRequest


class BodyTooLarge(Exception):
    """Its Content-Length exceeds the limit of the path. Nothing was read."""


class IncompleteBody(Exception):
    """The connection ended before the body did, or nothing says where the body ends."""


def read_body(request: HttpRequest, limit: int) -> bytes:
    """The body, of at most `limit` bytes and exactly as long as its Content-Length, which is 0 if it is absent.

    Raises BodyTooLarge and IncompleteBody. callerid_project.asgi gives a chunked body its Content-Length, greater than
    what arrived where the last chunk is missing; one that still has a Transfer-Encoding has no known end.
    """
    if request.META.get("HTTP_TRANSFER_ENCODING"):
        raise IncompleteBody
    try:
        length = int(request.META.get("CONTENT_LENGTH") or 0)
    except ValueError:
        length = 0
    if length > limit:
        raise BodyTooLarge
    try:
        body = request.body
    except UnreadablePostError as error:
        raise IncompleteBody from error
    if len(body) != length:
        raise IncompleteBody
    return body
