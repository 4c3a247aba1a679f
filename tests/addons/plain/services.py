from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse

from console.blocks import Attention, Figures
from core.console_search import Result, Search
from monitoring.health.base import Check, Findings, Request

called: list[str] = []


def start() -> None:
    called.append("start")


def stop() -> None:
    called.append("stop")


def page(request: HttpRequest) -> HttpResponse:
    return HttpResponse("plain")


def found(search: Search) -> list[Result]:
    return [Result(search.text, "/plain")]


def block(request: HttpRequest, figures: Figures) -> dict[str, Any] | None:
    """For those who may not view the ledger."""
    return {"name": request.user.get_username()} if figures.credits is None else None


def attention(request: HttpRequest) -> Attention:
    return Attention("plain/block.html", {"name": "attention"}, is_quiet=False)


def _find(request: Request) -> Findings:
    yield "Plain sentence."


CHECK = Check("Plain check", _find, (), on_dashboard=True)


def failing_since(now: datetime) -> dict[str, datetime]:
    called.append("failing_since")
    return {}


def prune() -> int:
    return 11


def count(numbers: Sequence[str]) -> int:
    return len(numbers)
