"""What a search costs the database, counted: a regression here shows on no clock of a busy machine."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from lookup.models import ComplaintDay, Contact, Country, NumberPrefix
from tests.api import NUMBER, Integrator


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


def test_a_search_with_the_built_in_sources_is_4_statements(real_sources: None) -> None:
    integrator = Integrator()
    expected = 4 if connection.vendor == "postgresql" else 5
    assert len(ran := statements(integrator)) == expected, ran


def test_a_contact_with_a_place_spares_one(real_sources: None) -> None:
    Contact.objects.update(location="Berlin")
    integrator = Integrator()
    expected = 3 if connection.vendor == "postgresql" else 4
    assert len(ran := statements(integrator)) == expected, ran


def test_an_idempotency_key_adds_3_and_a_replay_costs_2(real_sources: None) -> None:
    integrator = Integrator()
    expected = 7 if connection.vendor == "postgresql" else 8
    assert len(ran := statements(integrator, Idempotency_Key="k")) == expected, ran
    assert len(ran := statements(integrator, Idempotency_Key="k")) == 2, ran


def test_no_statement_touches_a_table_that_it_need_not(real_sources: None) -> None:
    text = " ".join(statements(Integrator()))
    assert not any(table in text for table in ("django_session", "auth_user", "django_content_type"))
