"""What the cells of the console's lists and the fields of its pages show: links, shortened ids, whole dates."""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from django.contrib import admin
from django.contrib.admin.templatetags.admin_urls import admin_urlname
from django.db.models import Model
from django.urls import reverse
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString

from core.bidi import isolated

_DATE = re.compile(r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}(?![0-9])")
_TIME = re.compile(r"[0-9 :-]*")
#: Of a note or a reason: what is shown of a longer one.
FOLDED_CHARACTERS, FOLDED_LINES = 160, 3


def html_link(url: str, text: object) -> str:
    """A link that is legible in the light and in the dark theme."""
    link = '<a class="text-primary-600 underline dark:text-primary-400" href="{}">{}</a>'
    return format_html(link, url, isolated(text))


def page_url(model: type[Model], page: str, *args: Any) -> str:
    """The URL of a page of a model's ModelAdmin, such as `changelist`."""
    return reverse(admin_urlname(model._meta, page), args=args)  # type: ignore[arg-type]


def change_link(model: str, pk: Any, text: object) -> str:
    """A link to the page of the object with this key of `model`, such as accounts_customer; `-` without a key."""
    return html_link(reverse(f"admin:{model}_change", args=[pk]), text) if pk else "-"


def failed(text: str) -> SafeString:
    """`text` in the colour of failures."""
    return format_html('<strong class="figures-bad">{}</strong>', text)


def folded(text: str) -> str:
    """What somebody wrote, with its lines; if it is long, with a button that shows all of it."""
    text = text.replace("\r\n", "\n").strip()
    start = "\n".join(text.split("\n")[:FOLDED_LINES])[:FOLDED_CHARACTERS]
    if len(start) == len(text):
        return format_html('<span class="console-lines">{}</span>', text) if "\n" in text else text
    if not text[len(start)].isspace() and (words := start.rsplit(maxsplit=1))[1:]:
        start = words[0]
    html = '<details class="console-lines"><summary>{}<span>… Show all</span></summary>{}</details>'
    return format_html(html, start, text[len(start) :].lstrip())


def shortened(request_id: str) -> str:
    return request_id if len(request_id) <= 16 else f"{request_id[:6]}…{request_id[-6:]}"


def short_id(text: str, url: str = "") -> str:
    """A request id, shortened if it is long, with a button that copies it (copy.js); `url`: what it links to."""
    shown = shortened(text)
    element = html_link(url, shown) if url else format_html("<span>{}</span>", shown)
    button = (
        '<button type="button" class="console-copy-id" data-copy-text="{}" aria-label="Copy request id" title="{}">'
    )
    return format_html('<span class="console-id">{}' + button + "</button></span>", element, text, text)


def money(value: Decimal) -> str:
    """`value` with all its decimals, at least two: a sum of prices of 0.008 is not rounded."""
    exponent = value.as_tuple().exponent
    decimals = -exponent if isinstance(exponent, int) else 0
    return f"{value:,.{max(2, decimals)}f}"


def column(text: Callable[[Any], str], description: str, ordering: Any = None) -> Any:
    """A column of a list, or a read-only field of a page, that shows the `text` of its row."""

    @admin.display(description=description, ordering=ordering)
    def shown(row: Any) -> str:
        return with_whole_dates(text(row))

    return staticmethod(shown)


def with_whole_dates(text: str) -> str:
    """A sentence as HTML that is not wrapped at the hyphens of its dates. HTML, lines, and a time alone are
    unchanged."""
    is_sentence = isinstance(text, str) and not isinstance(text, SafeString) and "\n" not in text
    if not is_sentence or not _DATE.search(text) or _TIME.fullmatch(text):
        return text
    return SafeString(_DATE.sub(r'<span class="console-date">\g<0></span>', escape(text)))
