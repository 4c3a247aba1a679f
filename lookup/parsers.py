"""The request body: one JSON object (RFC 8259) in UTF-8, without duplicate keys, of at most 16 KiB and complete."""

import json
from typing import Any

from django.conf import settings
from django.http.request import HttpRequest
from rest_framework.exceptions import ParseError, UnsupportedMediaType
from rest_framework.parsers import BaseParser
from rest_framework.utils.json import strict_constant

from core.request_body import read_body

MALFORMED = "Malformed JSON body"
NOT_AN_OBJECT = "JSON body must be an object"
UNSUPPORTED = "Unsupported media type."
# DRF's message quotes the media type. Only well-known ones are quoted, because others may be confidential.
_QUOTABLE_MEDIA_TYPES = {
    "application/octet-stream",
    "application/x-www-form-urlencoded",
    "application/xml",
    "multipart/form-data",
    "text/html",
    "text/plain",
    "text/xml",
}


class SearchParser(BaseParser):
    media_type = "application/json"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> dict[str, Any]:
        """The object in the body of `stream`: Django's request, as in DRF. Raises UnsupportedMediaType unless the
        content type is application/json (parameters allowed) and there is no Content-Encoding, what `read_body` raises,
        and ParseError with one of the messages above.

        Integers become floats: none is used, and Python refuses to parse an integer of 5,000 digits.
        """
        request: HttpRequest = stream
        sent_type = request.content_type or ""
        if sent_type != self.media_type or request.META.get("HTTP_CONTENT_ENCODING"):
            raise UnsupportedMediaType(sent_type, None if sent_type in _QUOTABLE_MEDIA_TYPES else UNSUPPORTED)
        body = read_body(request, settings.MAX_BODY_BYTES)
        try:
            if (request.content_params or {}).get("charset", "utf-8").lower() not in ("utf-8", "utf8"):
                raise ValueError("the body's charset is not UTF-8")
            value = _decoder.decode(body.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise ParseError(MALFORMED) from error
        if not isinstance(value, dict):
            raise ParseError(NOT_AN_OBJECT)
        return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("duplicate key")
    return members


_decoder = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_int=float, parse_constant=strict_constant)
