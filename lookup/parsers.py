"""The request body: at most 16 KiB of UTF-8 JSON, one object, no key twice (RFC 8259, read strictly)."""

import json
from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from django.http import UnreadablePostError
from django.http.request import HttpRequest
from rest_framework.exceptions import ParseError, UnsupportedMediaType
from rest_framework.parsers import BaseParser

MALFORMED = "Malformed JSON body"
NOT_AN_OBJECT = "JSON body must be an object"
UNSUPPORTED = "Unsupported media type."
# DRF's sentence quotes the media type. Only what is nobody's secret is quoted: these, or nothing.
_QUOTABLE_MEDIA_TYPES = {
    "application/octet-stream",
    "application/x-www-form-urlencoded",
    "application/xml",
    "multipart/form-data",
    "text/html",
    "text/plain",
    "text/xml",
}


class BodyTooLarge(Exception):
    """More than MAX_BODY_BYTES, counted as they are read."""


def require_json(request: HttpRequest) -> None:
    """Raises UnsupportedMediaType unless the content type is application/json (parameters allowed), and ParseError
    for an empty body, which DRF would take for `{}`."""
    media_type = request.content_type or ""
    if media_type != StrictJSONParser.media_type:
        raise UnsupportedMediaType(media_type, None if media_type in _QUOTABLE_MEDIA_TYPES else UNSUPPORTED)
    if request.META.get("CONTENT_LENGTH") in (None, "", "0"):
        raise ParseError(MALFORMED)


class StrictJSONParser(BaseParser):
    media_type = "application/json"

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The object in `stream`. Raises BodyTooLarge, or ParseError with one of the sentences above.

        Numbers come as floats: none is ever used, and a 5,000-digit integer is no reason to fail.
        """
        try:
            raw = stream.read(settings.MAX_BODY_BYTES + 1)
        except UnreadablePostError as error:  # the client went away
            raise ParseError(MALFORMED) from error
        if len(raw) > settings.MAX_BODY_BYTES:
            raise BodyTooLarge
        try:
            _require_utf8((parser_context or {})["request"]._request)
            value = json.loads(
                raw.decode("utf-8"),
                object_pairs_hook=_unique_keys,
                parse_int=float,
                parse_constant=_refuse_constant,
            )
        except (ValueError, RecursionError) as error:
            raise ParseError(MALFORMED) from error
        if not isinstance(value, dict):
            raise ParseError(NOT_AN_OBJECT)
        return value


def _require_utf8(request: HttpRequest) -> None:
    charset = (request.content_params or {}).get("charset", "utf-8")
    if charset.lower() not in ("utf-8", "utf8"):
        raise ValueError("the body's charset is not UTF-8")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key stands twice")
    return members


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
