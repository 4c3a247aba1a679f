"""Template filters for times, money and phone numbers."""

import math
from datetime import datetime
from typing import Any

from django import template

from core import numbers
from core.bidi import isolated_title
from core.cells import money
from core.text import sentence
from lookup import source_actions
from lookup.models import SourcePause
from monitoring import source_statistics
from monitoring.source_report import slot_name
from monitoring.source_statistics import BOUNDS_MS

register = template.Library()

#: Name of a source's state (source_report) → its text and the type of its label.
STATES = {
    "paused": ("paused", "warning"),
    "failing": ("failing", "danger"),
    "check_failed": ("check failed", "danger"),
    "resumed": ("resumed", "default"),
    "healthy": ("healthy", "success"),
    "unused": ("no calls", "default"),
}


@register.filter
def milliseconds(value: float | None) -> str:
    if value is None:
        return "-"
    if math.isinf(value):
        return f"over {BOUNDS_MS[-1]:,}"
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"


register.filter(money)


@register.filter
def advice(outcome: str, source: str) -> str:
    return source_statistics.advice(outcome, source) or "-"


register.filter(sentence)
register.filter(slot_name)


@register.filter
def check_text(result: dict[str, Any]) -> str:
    """Of the stored result of a check that made a call."""
    return source_statistics.check_text(result["outcome"], ok=result["ok"], ms=result["ms"], fix=result["fix"])


@register.filter
def meaning(reason: str) -> str:
    """A failure's reason, and what it means: `auth: the vendor rejected the key`."""
    return ": ".join(filter(None, [reason, source_statistics.MEANINGS.get(reason)]))


@register.filter
def described(pause: SourcePause, now: datetime) -> str:
    return isolated_title(f"{source_actions.described(pause, now)}.")


@register.filter
def state_label(name: str) -> tuple[str, str]:
    return STATES[name]


@register.filter
def phone(digits: str | int) -> str:
    """`+1 212 555 0100`."""
    return numbers.formatted(str(digits))
