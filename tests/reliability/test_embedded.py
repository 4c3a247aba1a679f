"""What the embedded profile keeps when its one process is killed."""

import json
from collections.abc import Callable

import pytest
import requests

from tests.api import NUMBER
from tests.load import create_tokens
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.reliability]

RATE_LIMIT = 3


def test_a_killed_embedded_service_keeps_debits_only(serve: Callable[..., Service]) -> None:
    service = serve(DATABASE_URL="", REDIS_URL="", RATE_LIMIT=f"{RATE_LIMIT}/h")
    (key,) = create_tokens(service, 1, credits=100)

    def search() -> requests.Response:
        return requests.post(f"{service.url}/callerid/search", json={"api_key": key, "query": NUMBER}, timeout=30)

    before = [search() for _ in range(RATE_LIMIT + 1)]
    assert [response.status_code for response in before] == [200] * RATE_LIMIT + [429]
    service.kill()
    service.start()
    after = [search() for _ in range(RATE_LIMIT + 1)]
    assert [response.status_code for response in after] == [200] * RATE_LIMIT + [429]  # docs/reliability.md says so
    assert after[-2].json()["credits_remaining"] == 100 - 2 * RATE_LIMIT
    assert json.loads(service.manage("audit_credits", "--json")) == {"disagreements": []}
