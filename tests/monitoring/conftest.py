"""Fixtures of the tests of alerts and notices."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.upstream import Upstream, raw


@pytest.fixture
def by_webhook(settings: Any, vendor: Callable[..., Upstream]) -> Upstream:
    """A receiver of alerts, which are on."""
    server = vendor(raw(b"", 204))
    settings.ALERT_WEBHOOK_URLS = [f"{server.url}/services/path-is-secret"]
    settings.ALERT_WEBHOOK_SECRETS = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]
    return server
