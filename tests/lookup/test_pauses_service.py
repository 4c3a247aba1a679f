"""A pause as running processes notice it: two workers, and the command in a process of its own."""

import json
from collections.abc import Callable
from http import HTTPStatus

import pytest
import requests

from core import history
from tests.api import NUMBER
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow]

KNOWS = "tests.connectors.Knows"
#: In a row, each on a connection of its own: that one of two workers serves all of them is next to impossible.
SEARCHES = 20
#: Far more than two workers serve in 2 seconds, in which a pause must be noticed.
MOST_SEARCHES = 5_000


def search(service: Service, key: str) -> int:
    body = {"api_key": key, "query": NUMBER}
    return requests.post(f"{service.url}/callerid/search", json=body, timeout=30).status_code


def searches_until(service: Service, key: str, status: int) -> bool:
    """Whether all workers answer with `status`, at last."""
    in_a_row = 0
    for _ in range(MOST_SEARCHES):
        in_a_row = in_a_row + 1 if search(service, key) == status else 0
        if in_a_row == SEARCHES:
            return True
    return False


def test_two_workers_notice_a_pause_and_its_end(
    serve: Callable[..., Service], postgres_url: str, redis_url: str
) -> None:
    service = serve(
        DATABASE_URL=postgres_url, REDIS_URL=redis_url, WORKERS="2",
        SOURCE_A=KNOWS, SOURCE_B=KNOWS, RATE_LIMIT="1000000/m",
    )  # fmt: skip
    assert len(service.workers()) == 2
    key = json.loads(service.manage("create_token", "pauses", "--credits", "100000", "--json"))["api_key"]
    assert searches_until(service, key, HTTPStatus.OK)
    paused = json.loads(service.manage("pause_source", KNOWS, "--reason", "test", "--json"))
    assert (paused["paused_by"], paused["reason"]) == (history.command_actor(), "test")
    assert paused["slots_without_sources"] == ["source_a", "source_b"]
    assert searches_until(service, key, HTTPStatus.INTERNAL_SERVER_ERROR)
    assert {search(service, key) for _ in range(SEARCHES)} == {HTTPStatus.INTERNAL_SERVER_ERROR}
    service.manage("resume_source", KNOWS)
    assert searches_until(service, key, HTTPStatus.OK)
    assert {search(service, key) for _ in range(SEARCHES)} == {HTTPStatus.OK}
