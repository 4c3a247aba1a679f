"""Statistics of processes as they are run: all of it is in the tables when they have ended."""

import json
import os
import signal
from collections.abc import Callable
from http import HTTPStatus

import pytest
import requests

from tests.api import NUMBER
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow]

Serve = Callable[..., Service]
SEARCHES = 12
KNOWS = "tests.connectors.Knows"


def shell(service: Service, script: str) -> str:
    return service.manage("shell", "--no-imports", "-c", script)


def counted(service: Service) -> dict[str, int]:
    """`slot connector` → how often."""
    rows = shell(
        service,
        "import json; from django.db.models import Sum; from monitoring.models import SourceHour\n"
        "rows = SourceHour.objects.values_list('slot', 'connector').annotate(Sum('count'))\n"
        "print(json.dumps([list(map(str, row)) for row in rows]))",
    )
    return {" ".join(key): int(how_often) for *key, how_often in json.loads(rows)}


def terminate(service: Service) -> int:
    return service.stop()


def interrupt(service: Service) -> int:
    """Ctrl-C: every process of the terminal's group gets it."""
    assert service.process is not None
    os.killpg(service.process.pid, signal.SIGINT)
    return service.process.wait(15)


@pytest.mark.parametrize("end", [terminate, interrupt])
def test_an_orderly_end_loses_no_count(serve: Serve, end: Callable[[Service], int]) -> None:
    service = serve(SOURCE_A=KNOWS, SOURCE_B=KNOWS)
    token = json.loads(service.manage("create_token", "statistics", "--credits", "100", "--json"))
    for _ in range(SEARCHES):
        body = {"api_key": token["api_key"], "query": NUMBER}
        assert requests.post(f"{service.url}/callerid/search", json=body, timeout=30).status_code == HTTPStatus.OK
    assert end(service) == 0
    assert counted(service) == {f"{slot} {KNOWS}": SEARCHES for slot in ("source_a", "source_b")}
    assert "Traceback" not in service.log()


def test_a_command_flushes_its_counts(serve: Serve) -> None:
    service = serve(SOURCE_A=KNOWS, SOURCE_B=KNOWS)
    service.manage("lookup", NUMBER)
    assert counted(service) == {f"source_a {KNOWS}": 1, f"source_b {KNOWS}": 1}
