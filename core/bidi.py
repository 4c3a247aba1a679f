"""Names that may be written from right to left, in HTML and, where there is none, in text."""

import re
from unicodedata import bidirectional

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

_ID = re.compile(r"(\(#[0-9]+\))")


def isolated(text: object) -> object:
    """`name (#12)` as HTML in which a name that is written from right to left leaves `(#12)` as it is; anything else
    unchanged."""
    name, _, number = str(text).rpartition(" (#")
    is_named = name and number[-1:] == ")" and number[:-1].isdecimal() and not isinstance(text, SafeString)
    return format_html("<bdi>{}</bdi> (#{}", name, number) if is_named else text


def isolated_title(text: object) -> SafeString:
    """An English sentence as HTML, in which a name that is written from right to left moves no other word, inside or
    beside the sentence, nor the ids of tokens and customers."""
    parts = _ID.split(str(text))
    title = format_html_join(
        "", "{}", ((format_html("<bdi>{}</bdi>", part) if _ID.fullmatch(part) else part,) for part in parts)
    )
    return format_html('<bdi dir="ltr">{}</bdi>', title if _is_rtl(str(text)) else text)


def isolated_name(text: str) -> str:
    """`name (#12)` for an option of a form, whose text cannot have elements: a name that is written from right to left
    is between U+2068 and U+2069."""
    name, separator, rest = text.rpartition(" (#")
    return f"\u2068{name}\u2069{separator}{rest}" if name and _is_rtl(name) else text


def _is_rtl(text: str) -> bool:
    return any(bidirectional(each) in ("R", "AL") for each in text)
