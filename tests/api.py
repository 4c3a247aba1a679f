"""An integrator in the same process: posts searches through Django's whole stack and looks at its account."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.core.cache import caches
from django.core.signals import setting_changed
from django.dispatch import receiver
from django.test import Client
from django.utils import timezone

from accounts import idempotency, tokens
from accounts.models import ApiToken, CreditEntry
from core import commits, redis, write_buffer
from lookup import pauses, rate_limit
from lookup.connectors import registry
from lookup.vendors import cache
from monitoring.health import probes
from phonebook import number_query
from tests import awaited, connectors
from tests.console.dashboard_rows import NOW

NUMBER = "493023125042"


class Integrator:
    def __init__(self, credits: int = 10, *, is_test: bool = False) -> None:
        issued = tokens.issue(name="test", initial_credits=0 if is_test else credits, is_test=is_test, actor="test")
        self.token, self.key = issued.token, issued.api_key
        self.client = Client(raise_request_exception=False)

    def post(self, body: bytes | str, content_type: str = "application/json", **headers: str) -> Any:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        # Django's client leaves the content type out where the body is empty: a real one does not.
        always: Any = {"CONTENT_TYPE": content_type, "CONTENT_LENGTH": str(len(body))}
        return self.client.generic("POST", "/callerid/search", body, headers=named, **always)

    def send(self, members: Any, **headers: str) -> Any:
        return self.post(json.dumps(members), **headers)

    def search(self, query: Any = NUMBER, **headers: str) -> Any:
        return self.send({"api_key": self.key, "query": query}, **headers)

    def balance(self) -> int:
        self.token.refresh_from_db()
        return self.token.credits

    def debits(self) -> int:
        return CreditEntry.objects.filter(token=self.token, kind="search").count()


def claim(token: ApiToken, key: str, number: str = NUMBER) -> idempotency.Claim:
    """The claim of a key that nobody holds."""
    claimed = awaited.begin(token=token, key=key, number=number, can_pay=True)
    assert isinstance(claimed, idempotency.Claim)
    return claimed


@pytest.fixture
def integrator(db: None, quiet_sources: None) -> Integrator:
    """With 10 credits; both slots are bound to local connectors that know the number."""
    return Integrator()


@pytest.fixture
def quiet_sources(settings: Any) -> None:
    settings.SOURCE_A = "tests.connectors.Knows"
    settings.SOURCE_B = "tests.connectors.Knows"


@pytest.fixture
def frozen_dashboard(quiet_sources: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both slots have one local source, and the time is NOW."""
    monkeypatch.setattr(timezone, "now", lambda: NOW)


@receiver(setting_changed)
def _connect_to_redis_anew(*, setting: str, **_: Any) -> None:
    if setting in ("REDIS_URL", "REDIS_TIMEOUT_S"):
        awaited.disconnect_from_redis()


@pytest.fixture(autouse=True)
def _fresh_counters() -> Iterator[None]:
    """No test sees another's limits, outages, cached answers, circuit breakers, statistics or recorded calls.

    Statistics stay in memory: no thread writes into a test's database unasked."""
    registry.reset()
    number_query.combined_statement = number_query.CombinedStatement()
    pauses.process_pauses = pauses.PausedSources()
    cache.answers = cache.AnswerCache()
    rate_limit.token_log = rate_limit.TokenLog()
    write_buffer.process_buffer = write_buffer.WriteBuffer(flush_interval_s=None)
    redis.availability = redis.Availability()
    commits.process_commits = commits.CommitBreaker()
    probes.readiness = probes.Readiness()
    if settings.REDIS_URL:
        redis.call(lambda client: client.execute("FLUSHDB"))
    caches["rate_limits"].clear()
    for value in vars(connectors).values():
        if isinstance(value, type) and "calls" in vars(value):
            value.calls.clear()  # type: ignore[attr-defined]
    hanging = connectors.Hangs.released = threading.Event()
    yield
    connectors.Hangs.released = threading.Event()
    hanging.set()
    registry.reset()
