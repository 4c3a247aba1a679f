from collections.abc import Sequence

from django.http import HttpRequest, HttpResponse

from core.console_search import Result, Search

called: list[str] = []


def start() -> None:
    called.append("start")


def stop() -> None:
    called.append("stop")


def page(request: HttpRequest) -> HttpResponse:
    return HttpResponse("plain")


def found(search: Search) -> list[Result]:
    return [Result(search.text, "/plain")]


def prune() -> int:
    return 11


def count(numbers: Sequence[str]) -> int:
    return len(numbers)
