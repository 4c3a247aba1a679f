"""Outside oracle: the client of Standard Webhooks verifies what the service sends.

It is no dependency of ours: requirements/oracles.lock has it. With CALLERID_REQUIRE_CLIENTS set, its absence is a
failure.
"""

import importlib
import os
from collections.abc import Callable
from typing import Any

import pytest

from contrib.alerts.tests.test_webhooks import OTHER_SECRET, SECRET, headers, post
from tests.upstream import Upstream, raw

Vendor = Callable[..., Upstream]


@pytest.fixture
def client() -> Any:
    """The class Webhook."""
    if not os.environ.get("CALLERID_REQUIRE_CLIENTS"):
        pytest.importorskip("standardwebhooks")
    return importlib.import_module("standardwebhooks").Webhook


def test_client_verifies_a_message_with_either_secret(client: Any, vendor: Vendor) -> None:
    server = vendor(raw(b""))
    post(server.url, secrets=(SECRET, OTHER_SECRET), body='{"name": "Bäckerei"}'.encode())
    for secret in (SECRET, OTHER_SECRET):
        assert client(secret).verify(server.bodies[0], headers(server)) == {"name": "Bäckerei"}
        with pytest.raises(Exception, match="No matching signature found"):
            client(secret).verify(b"{}", headers(server))
