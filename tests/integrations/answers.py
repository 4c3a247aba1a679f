"""What the service answers, and everything else that an integration may receive instead."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tests.upstream import FAULTS, Behaviour, Conversation, raw, says

Result = TypeVar("Result")

#: The service's errors that a telephone system can get, by status.
ERRORS = {
    401: "Invalid or missing token",
    403: "No credits remaining",
    404: "Not found.",
    429: "Rate limit exceeded",
    500: "Internal server error",
    503: "Service overloaded",
}


def answer(name: str = "", spam: bool | None = None, other: str = "") -> dict[str, object]:
    """What the service answers."""
    a: dict[str, object] = {"name": name} if name else {}
    b: dict[str, object] = ({"name": other} if other else {}) | ({} if spam is None else {"spam": spam})
    combined = {"source_a_available": bool(a), "source_b_available": bool(b)}
    data = {"phone_number": "493023125555", "source_a": a, "source_b": b, "combined": combined}
    return {"success": True, "data": data, "credits_remaining": 9}


def by_number(behaviours: dict[str, Behaviour]) -> Behaviour:
    """Each number has its own behaviour."""

    def behave(conversation: Conversation) -> bool:
        return behaviours[json.loads(conversation.body)["query"]](conversation)

    return behave


def every_fault() -> dict[str, Behaviour]:
    """Behaviours of an HTTP server that give no name, by what they are; many of them contain one."""
    good = json.dumps(answer("Example Bakery", spam=True)).encode()
    return {
        **{name: fault for name, (fault, _) in FAULTS.items() if name != "wrong types"},
        **{str(status): raw(good, status) for status in (400, 401, 403, 404, 413, 415, 429, 500, 502, 503)},
        "200 without content": raw(b""),
        "201": raw(good, 201),
        "a name that is cut off": raw(good[:60]),
        "more than fits": raw(good + b" " * 20_000),
        "1 MB of a name": says(answer("x" * 1_000_000)),
        "an array": raw(b"[" + good + b"]"),
        "a detail": says({"detail": "Internal server error"}),
        "names of other types": says(
            {"success": True, "data": {"source_a": {"name": None}, "source_b": {"name": None, "spam": "many"}}}
        ),
        "no data": says({"success": True, "data": []}),
    }


def at_the_same_time(run: Callable[[list[str]], list[Result]], numbers: list[str]) -> list[Result]:
    """The results of `run` for all numbers, six at a time: many wait for their time limit."""
    parts = [numbers[first::6] for first in range(6)]
    with ThreadPoolExecutor(6) as threads:
        by_part = list(threads.map(run, parts))
    found = dict(zip((number for part in parts for number in part), (r for part in by_part for r in part), strict=True))
    return [found[number] for number in numbers]
