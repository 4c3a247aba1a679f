"""Outside oracle: the client of Standard Webhooks verifies what the service sends.

It is no dependency of ours: requirements/oracles.lock has it. With CALLERID_REQUIRE_CLIENTS set, its absence is a
failure.
"""

import importlib
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from core import webhooks
from tests.core.test_webhooks import OTHER_SECRET, SECRET, headers, post
from tests.upstream import Upstream, raw

Vendor = Callable[..., Upstream]


@pytest.fixture
def client() -> Any:
    """The class Webhook."""
    if not os.environ.get("CALLERID_REQUIRE_CLIENTS"):
        pytest.importorskip("standardwebhooks")
    return importlib.import_module("standardwebhooks").Webhook


def test_client_verifies_a_message(client: Any, vendor: Vendor) -> None:
    server = vendor(raw(b""))
    post(server.url, body='{"name": "Bäckerei"}'.encode())
    assert client(SECRET).verify(server.bodies[0], headers(server)) == {"name": "Bäckerei"}
    for wrong in ((OTHER_SECRET, server.bodies[0]), (SECRET, b"{}")):
        with pytest.raises(Exception, match="No matching signature found"):
            client(wrong[0]).verify(wrong[1], headers(server))


def test_client_accepts_either_secret_during_a_rotation(client: Any, vendor: Vendor) -> None:
    server = vendor(raw(b""))
    post(server.url, secrets=(SECRET, OTHER_SECRET))
    for secret in (SECRET, OTHER_SECRET):
        assert client(secret).verify(server.bodies[0], headers(server)) == {}


def test_client_signs_as_the_service_does(client: Any) -> None:
    at = int(time.time())
    ours = webhooks.signature(secret=SECRET, message_id="msg_1", timestamp=at, body=b"{}")
    assert client(SECRET).sign("msg_1", datetime.fromtimestamp(at, UTC), "{}") == ours
