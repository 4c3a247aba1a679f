from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.http import HttpRequest, HttpResponse

from console.blocks import Figures
from core.console_search import Result, Search

called: list[str] = []


def start() -> None:
    called.append("start")


def stop() -> None:
    called.append("stop")


@contextmanager
def receive(upload: Any, opening: dict[str, Any]) -> Iterator[None]:
    called.append(upload.file_name)
    yield
    upload.delete()


def page(request: HttpRequest) -> HttpResponse:
    return HttpResponse("plain")


def found(search: Search) -> list[Result]:
    return [Result(search.text, "/plain")]


def block(request: HttpRequest, figures: Figures) -> dict[str, Any] | None:
    """For those who may not view the ledger."""
    return {"name": request.user.get_username()} if figures.credits is None else None


def prune() -> int:
    return 11


def count(numbers: Sequence[str]) -> int:
    return len(numbers)
