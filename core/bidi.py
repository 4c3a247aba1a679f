"""Names that may be written from right to left, in HTML."""

from django.utils.html import format_html
from django.utils.safestring import SafeString


def isolated(text: object) -> object:
    """`name (#12)` as HTML in which a name that is written from right to left leaves `(#12)` as it is; anything else
    unchanged."""
    name, _, number = str(text).rpartition(" (#")
    is_named = name and number[-1:] == ")" and number[:-1].isdecimal() and not isinstance(text, SafeString)
    return format_html("<bdi>{}</bdi> (#{}", name, number) if is_named else text


def isolated_title(text: object) -> SafeString:
    """An English sentence as HTML, in which a name that is written from right to left moves no other word, inside or
    beside the sentence."""
    return format_html('<bdi dir="ltr">{}</bdi>', text)
