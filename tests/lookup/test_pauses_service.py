"""A pause as running instances notice it: two of them, and the command in a process of its own."""

import json
from collections.abc import Callable
from http import HTTPStatus

import pytest
import requests

from core import history
from tests import plugin
from tests.api import NUMBER
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow]

KNOWS = "tests.connectors.Knows"
#: Far more than an instance serves in 2 seconds, in which a pause must be noticed.
MOST_SEARCHES = 5_000


def search(service: Service, key: str) -> int:
    body = {"api_key": key, "query": NUMBER}
    return requests.post(f"{service.url}/callerid/search", json=body, timeout=30).status_code


def searches_until(service: Service, key: str, status: int) -> bool:
    """Whether the instance answers with `status`, at last."""
    return any(search(service, key) == status for _ in range(MOST_SEARCHES))


def noticed_by_all(instances: list[Service], key: str, status: int) -> None:
    for instance in instances:
        assert searches_until(instance, key, status)
        assert {search(instance, key) for _ in range(20)} == {status}


def test_instances_notice_a_pause_and_its_end(serve: Callable[..., Service], postgres_url: str, redis_url: str) -> None:
    environment = {"DATABASE_URL": postgres_url, "REDIS_URL": redis_url, "SOURCE_A": KNOWS, "SOURCE_B": KNOWS}
    environment |= {"RATE_LIMIT": "1000000/m", **plugin.generated_keys()}
    instances = [serve(**environment) for _ in range(2)]
    key = json.loads(instances[0].manage("create_token", "pauses", "--credits", "100000", "--json"))["api_key"]
    noticed_by_all(instances, key, HTTPStatus.OK)
    paused = json.loads(instances[0].manage("pause_source", KNOWS, "--reason", "test", "--json"))
    assert (paused["paused_by"], paused["reason"]) == (history.command_actor(), "test")
    assert paused["slots_without_sources"] == ["source_a", "source_b"]
    noticed_by_all(instances, key, HTTPStatus.INTERNAL_SERVER_ERROR)
    instances[0].manage("resume_source", KNOWS)
    noticed_by_all(instances, key, HTTPStatus.OK)
