"""The template tag `trail`: the breadcrumbs of a page of the console."""

from typing import Any

from django import template
from django.template.context import Context
from django.urls import reverse

from console import pages

register = template.Library()

#: By the end of the URL's name, what is the last breadcrumb; others have the title of their page.
_LAST = {"changelist": "", "index": "", "history": "History", "delete": "Delete"}


@register.simple_tag(takes_context=True)
def trail(context: Context) -> list[tuple[Any, str]]:
    """Section, page, object and action, with the names of the sidebar, each with its URL; a section, and the last one,
    have none."""
    request = context["request"]
    section, page = pages.current(request.path) or ("", None)
    parts: list[tuple[Any, str]] = [(section, "")] if section else []
    if page:
        parts.append((page.title, page.url))
    obj: Any = context.get("original") or context.get("object")
    has_page = page is not None and hasattr(obj, "_meta")
    if has_page:
        model = obj._meta
        url = reverse(f"admin:{model.app_label}_{model.model_name}_change", args=[obj.pk])
        parts.append((context.get("subtitle") or obj, url))
    end = (getattr(request.resolver_match, "url_name", None) or "").rpartition("_")[2]
    last = _LAST.get(end, (context.get("button") if has_page else "") or context.get("title") or "")
    if last and not (has_page and end == "change") and not (page and last == page.title):
        parts.append((last, ""))
    return [*parts[:-1], (parts[-1][0], "")] if parts else []
