"""One of two hosts has a clock that is an hour slow: it serves, and both hosts name it."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
import requests

from tests import plugin
from tests.api import NUMBER
from tests.load import wait_for
from tests.servers import Unavailable, required
from tests.service import Service, serving

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.reliability]

WRONG, RIGHT = "web2.example.com", "web1.example.com"


def slow_clock() -> dict[str, str]:
    """The environment of a process whose clock is an hour slow, by libfaketime."""
    found = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
    if found is None:
        raise Unavailable("libfaketime (Debian's package faketime) is not installed")
    if os.geteuid():
        raise Unavailable("a host of another name needs root")
    return {"LD_PRELOAD": str(found), "FAKETIME": "-1h", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


@pytest.fixture
def hosts(postgres_url: str, redis_url: str, tmp_path: Path) -> Iterator[tuple[Service, Service]]:
    """The one with the right clock, and the other."""
    with required():
        wrong = slow_clock()
    shared = {**plugin.generated_keys(), "DATABASE_URL": postgres_url, "REDIS_URL": redis_url}

    def host(name: str, environment: dict[str, str]) -> Service:
        directory = tmp_path / name
        directory.mkdir()
        return opened.enter_context(
            serving(directory, {**shared, **environment}, shared=tmp_path, module=("tests.named_host", name))
        )

    with ExitStack() as opened:
        yield host(RIGHT, {}), host(WRONG, wrong)


def open_alerts(url: str) -> list[tuple[str, str, str]]:
    with psycopg.connect(url) as database:
        return database.execute(
            "SELECT subject, title, summary FROM monitoring_incident"
            " WHERE kind = 'clock.wrong' AND opened_at IS NOT NULL AND closed_at IS NULL"
        ).fetchall()


def test_host_with_a_slow_clock_serves_and_is_named(hosts: tuple[Service, Service], postgres_url: str) -> None:
    right, wrong = hosts
    key = right.manage("create_token", "pbx", "--credits", "10", "--quiet").strip()  # for `wrong` in the future
    body = {"api_key": key, "query": NUMBER}
    assert requests.post(f"{wrong.url}/callerid/search", json=body, timeout=30).status_code == 200
    wait_for(lambda: open_alerts(postgres_url))
    ((subject, title, summary),) = open_alerts(postgres_url)
    assert (subject, title) == (WRONG, f"The clock of {WRONG} is wrong")
    assert summary.startswith(("It is 3,600.", "It is 3,599."))
    assert summary.endswith(" s behind the database's clock.")
    for service in hosts:
        assert f"{title}. {summary}" in service.doctor("Processes")["detail"]
    assert "differs from that of this host by +3600." in wrong.doctor("Clocks")["detail"]
