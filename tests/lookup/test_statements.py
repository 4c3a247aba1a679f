"""The number of SQL statements of a search, the only place where it is asserted."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from core import loop
from lookup import pauses
from phonebook.models import ComplaintDay, Contact, Country, NumberPrefix
from tests.api import NUMBER, Integrator


@pytest.fixture(autouse=True)
def _pauses_are_known(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process reads them every REFRESH_S (test_pauses.py)."""
    monkeypatch.setattr(pauses, "process_pauses", pauses.PausedSources(clock=lambda: 0.0))
    loop.run(pauses.process_pauses.names())


@pytest.fixture
def real_sources(db: None, settings: Any) -> None:
    settings.SOURCE_A, settings.SOURCE_B = "directory,geography", "complaints"
    Contact.objects.create(number=int(NUMBER), name="Example Bakery")
    NumberPrefix.objects.create(prefix=4930, place="Berlin")
    Country.objects.create(code="DE", name="Germany")
    ComplaintDay.objects.create(number=int(NUMBER), source="test", day="2026-01-01", total=1)


def statements(integrator: Integrator, **headers: str) -> list[str]:
    """Without BEGIN, COMMIT and the savepoints that take their place inside a test's own transaction."""
    with CaptureQueriesContext(connection) as captured:
        assert integrator.search(**headers).status_code == 200
    words = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE")
    return [query["sql"] for query in captured.captured_queries if not query["sql"].startswith(words)]


def test_a_search_with_the_built_in_sources_is_3_statements(real_sources: None) -> None:
    integrator = Integrator()
    expected = 3 if connection.vendor == "postgresql" else 4
    assert len(ran := statements(integrator)) == expected, ran


def test_a_contact_with_a_place_saves_one_statement(real_sources: None) -> None:
    Contact.objects.update(location="Berlin")
    integrator = Integrator()
    expected = 2 if connection.vendor == "postgresql" else 3
    assert len(ran := statements(integrator)) == expected, ran


def test_an_idempotency_key_adds_2_and_a_replay_costs_3(real_sources: None) -> None:
    """One of a replay's waits for a synchronous standby. On SQLite a replay costs 2, and a key adds 4, because its
    claim is checked and its answer stored by statements of their own."""
    integrator = Integrator()
    expected, replayed = (5, 3) if connection.vendor == "postgresql" else (8, 2)
    assert len(ran := statements(integrator, Idempotency_Key="k")) == expected, ran
    assert len(ran := statements(integrator, Idempotency_Key="k")) == replayed, ran


def test_a_search_reads_no_session_or_user_table(real_sources: None) -> None:
    text = " ".join(statements(Integrator()))
    assert not any(table in text for table in ("django_session", "auth_user", "django_content_type"))
