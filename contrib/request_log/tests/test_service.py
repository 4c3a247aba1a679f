"""The request log of processes as they are run."""

import json
from collections.abc import Callable

import pytest
import requests

from tests.api import NUMBER
from tests.monitoring.test_usage_service import KNOWS, SEARCHES, Serve, interrupt, shell, terminate
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow]

COUNT = "from contrib.request_log.models import RequestLogEntry as R; print(R.objects.filter(charged=True).count())"


@pytest.mark.parametrize("end", [terminate, interrupt])
def test_an_orderly_end_loses_no_row(serve: Serve, end: Callable[[Service], int]) -> None:
    service = serve(SOURCE_A=KNOWS, SOURCE_B=KNOWS)
    token = json.loads(service.manage("create_token", "log", "--credits", "100", "--json"))
    for _ in range(SEARCHES):
        body = {"api_key": token["api_key"], "query": NUMBER}
        assert requests.post(f"{service.url}/callerid/search", json=body, timeout=30).status_code == 200
    assert end(service) == 0
    assert int(shell(service, COUNT)) == SEARCHES
