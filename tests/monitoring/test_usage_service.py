"""Statistics and request log of processes as they are run: all of it is in the tables when they have ended."""

import json
import os
import signal
from collections.abc import Callable
from http import HTTPStatus

import pytest
import requests

from tests import plugin
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


def search_and_end(service: Service, end: Callable[[Service], int], *others: Service) -> None:
    instances = [service, *others]
    token = json.loads(service.manage("create_token", "statistics", "--credits", "100", "--json"))
    for index in range(SEARCHES):
        response = requests.post(
            f"{instances[index % len(instances)].url}/callerid/search",
            json={"api_key": token["api_key"], "query": NUMBER},
            timeout=30,
        )
        assert response.status_code == HTTPStatus.OK
    assert [end(instance) for instance in instances] == [0] * len(instances)
    assert counted(service) == {f"{slot} {KNOWS}": SEARCHES for slot in ("source_a", "source_b")}
    logged = (
        "from monitoring.models import RequestLogEntry; print(RequestLogEntry.objects.filter(charged=True).count())"
    )
    assert int(shell(service, logged)) == SEARCHES
    assert not [instance.log() for instance in instances if "Traceback" in instance.log()]


@pytest.mark.parametrize("end", [terminate, interrupt])
def test_an_orderly_end_loses_no_count(serve: Serve, end: Callable[[Service], int]) -> None:
    search_and_end(serve(SOURCE_A=KNOWS, SOURCE_B=KNOWS), end)


def test_several_instances_end_and_lose_no_count(serve: Serve, postgres_url: str, redis_url: str) -> None:
    environment = {"DATABASE_URL": postgres_url, "REDIS_URL": redis_url, "SOURCE_A": KNOWS, "SOURCE_B": KNOWS}
    environment |= plugin.generated_keys()
    service, *others = [serve(**environment) for _ in range(3)]
    search_and_end(service, terminate, *others)


def test_a_command_flushes_its_counts(serve: Serve) -> None:
    service = serve(SOURCE_A=KNOWS, SOURCE_B=KNOWS)
    service.manage("lookup", NUMBER)
    shell(
        service,
        "from monitoring import source_statistics\nsource_statistics.count_opened('own')",
    )
    assert counted(service) == {f"source_a {KNOWS}": 1, f"source_b {KNOWS}": 1, " own": 1}
