from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse

from console.blocks import Attention, Figures
from core.console_search import Result, Search
from core.db import fetch
from lookup.vendors.preset import Preset
from monitoring.health.registry import Check, Findings, Request
from monitoring.service_status import Recent, Requests

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


def recent_requests(now: datetime) -> Recent:
    return Recent(now - timedelta(minutes=10), Requests(answered=430), "plain/chart.html", {"title": "Plain chart"})


def attention(request: HttpRequest) -> Attention:
    return Attention("plain/block.html", {"name": "attention"}, is_quiet=False)


def _find(request: Request) -> Findings:
    yield "Plain sentence."


CHECK = Check("Plain check", _find, on_dashboard=True)


def failing_since(now: datetime) -> dict[str, datetime]:
    called.append("failing_since")
    return {}


def samples(preset: Preset) -> list[tuple[str, str]]:
    return [(each.title, "") for each in preset.sample]


def section(now: datetime) -> dict[str, Any] | None:
    return {"year": now.year}


def no_section(now: datetime) -> dict[str, Any] | None:
    return None


def prune() -> int:
    return 11


def count(numbers: Sequence[str]) -> int:
    return len(numbers)


def erase_files(numbers: Sequence[str]) -> int:
    """1 if no import can write meanwhile."""
    from phonebook.imports.contacts import CONTACTS
    from phonebook.imports.staging import LockNotAvailable, Tables

    try:
        with Tables.lock(CONTACTS, wait=False):
            return 0
    except LockNotAvailable:
        return 1


def store(table: Any, batch: Any, rows: str, *, is_removed: bool) -> None:
    called.extend(f"{name} {is_removed}" for (name,) in fetch(f"SELECT t.name FROM {rows}"))


class PlainReader:
    @staticmethod
    def recognizes(begin: Sequence[str]) -> int:
        return int(begin[0] == "plain\n")

    @staticmethod
    def read(lines: Iterator[str], **options: Any) -> Iterator[tuple[Any, ...]]:
        yield 1, 447700900124, "Cid", ""
