"""Fixtures of the tests of alerts and notices."""

from collections.abc import Callable
from typing import Any

import pytest

from monitoring import task_runs
from monitoring.models import TaskRun
from tests.account_fixtures import Clock
from tests.console.dashboard_rows import NOW, configure
from tests.smtp import Mailbox
from tests.upstream import Upstream, raw


@pytest.fixture
def service_at_rest(clock: Clock, settings: Any) -> None:
    """At NOW. Only the local source Knows is configured."""
    clock.now = NOW
    configure(settings, "Knows")
    settings.ALERT_EMAILS, settings.REDIS_URL = ["ops@example.org"], ""
    for task in task_runs.OVERDUE:
        TaskRun.objects.create(name=task, succeeded_at=NOW)


@pytest.fixture
def by_webhook(settings: Any, vendor: Callable[..., Upstream]) -> Upstream:
    """A receiver of alerts, which are on."""
    server = vendor(raw(b"", 204))
    settings.ALERT_WEBHOOK_URLS = [f"{server.url}/services/path-is-secret"]
    settings.ALERT_WEBHOOK_SECRETS = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]
    return server


@pytest.fixture
def notices_on(settings: Any) -> None:
    settings.LOW_BALANCE_NOTICES = True


@pytest.fixture
def mailbox(notices_on: None, mailbox: Mailbox) -> Mailbox:
    return mailbox
