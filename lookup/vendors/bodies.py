"""The body of a reply as the expressions of a preset see it: JSON, XML or plain text, whatever its Content-Type."""

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from core.text import encoding_named
from lookup.vendors import xml

if TYPE_CHECKING:  # many commands read presets and call no vendor
    from lookup.vendors import transport

Kind = Literal["json", "text", "xml"]
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:+-]{1,40})", re.ASCII)
_XML_ENCODING = re.compile(rb"\s*<\?xml[^>]{1,100}encoding\s*=\s*[\"']([\w.-]{1,40})")
# Without digits, which might be the number.
_MEDIA_TYPE = re.compile(r"[a-z]{1,20}/[a-z.+-]{1,40}")
_CODING = re.compile(r"[a-z-]{1,20}")


class Unreadable(ValueError):
    """`number_specific`: the vendor's answer about another number may be readable."""

    def __init__(self, *, number_specific: bool = False) -> None:
        super().__init__()
        self.number_specific = number_specific


def read(kind: Kind, reply: "transport.Reply") -> Any:
    """Raises Unreadable."""
    try:
        text = _text(reply)
    except UnicodeDecodeError:
        _parsed(kind, reply.body.decode("latin-1"))
        raise Unreadable(number_specific=True) from None  # it may be only the characters beyond ASCII in this answer
    return _parsed(kind, text)


def _parsed(kind: Kind, text: str) -> Any:
    """Raises Unreadable."""
    try:
        if kind == "json":
            return _decoder.decode(text)
        if kind == "text" and text.lstrip().startswith("<"):
            raise Unreadable  # a page
        return xml.document(text) if kind == "xml" else text
    except (ValueError, RecursionError):
        raise Unreadable from None


def described(kind: Kind, reply: "transport.Reply") -> str:
    """What a body is that could not be read, without any of it: `HTML, not JSON (Content-Type text/html)`."""
    start = reply.body.lstrip()[:5].lower()
    coding = reply.headers.get("Content-Encoding", "").strip().lower()
    if not start:
        what = "empty"
    elif coding not in ("", "identity", "gzip", "x-gzip", "deflate") and not start.isascii():
        what = f"compressed as {coding if _CODING.fullmatch(coding) else 'something'}, which was not asked for"
    elif kind == "xml":
        what = "not XML, or has a document type"
    elif start.startswith(b"<"):
        what = f"{'XML' if start == b'<?xml' else 'HTML'}, not {'JSON' if kind == 'json' else 'plain text'}"
    elif not _is_text(reply):
        what = "not UTF-8, nor in a charset that it declares"
    else:
        what = "truncated or invalid JSON" if start.startswith((b"{", b"[", b'"')) else "not JSON"
    media_type = reply.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if not media_type:
        return f"{what} (no Content-Type)"
    return f"{what} (Content-Type {media_type if _MEDIA_TYPE.fullmatch(media_type) else 'unusual'})"


def _text(reply: "transport.Reply") -> str:
    """The body, decoded. What is UTF-8 is read as that, whatever is declared: servers declare a default that is not
    theirs. Raises UnicodeDecodeError."""
    body = reply.body
    for encoding in _encodings(reply):
        try:
            return body.decode(encoding, "surrogatepass" if encoding == "utf-8" else "strict").removeprefix("\ufeff")
        except UnicodeDecodeError:
            continue
    raise UnicodeDecodeError("utf-8", b"", 0, 0, "")


def _encodings(reply: "transport.Reply") -> Iterator[str]:
    body = reply.body
    if b"\0" in body:  # UTF-16 or UTF-32
        yield json.detect_encoding(body)
    if b"\x1b" in body:  # ISO 2022 is valid ASCII
        yield from _declared(reply)
    yield "utf-8"
    yield from _declared(reply)


def _declared(reply: "transport.Reply") -> Iterator[str]:
    charset = _CHARSET.search(reply.headers.get("Content-Type", "").lower())
    in_xml = _XML_ENCODING.match(reply.body)
    for name in (charset and charset[1], in_xml and in_xml[1].decode()):
        encoding = encoding_named(name) if name else None
        if encoding in ("latin_1", "ascii"):  # what is declared so is Windows-1252 (encoding.spec.whatwg.org)
            yield from ("cp1252", "latin_1")
        elif encoding:
            yield encoding


def _is_text(reply: "transport.Reply") -> bool:
    try:
        return bool(_text(reply))
    except UnicodeDecodeError:
        return False


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


# json.loads with an option would create one for each reply. Not strict: line feeds and other control characters in a
# string are read, which vendors write without escaping.
_decoder = json.JSONDecoder(parse_constant=_refuse, strict=False)
