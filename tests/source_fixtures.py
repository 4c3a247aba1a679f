"""Fixtures of the sources: the numbering plan, and mock vendors on loopback."""

from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker

from core import db
from phonebook.imports import numbering_plan as plan_import
from phonebook.models import Country, Dataset, NumberPrefix
from tests.mock_vendors import KEYS, PRESETS, Vendors


@pytest.fixture(scope="module")
def numbering_plan(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The whole numbering plan, loaded once for a module's tests and gone afterwards.

    It is committed, so that it is there for each of them; tests that flush the database must not ask for it.
    """
    with django_db_blocker.unblock(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(db, "SQLITE_PAUSE_S", 0)
        plan_import.load_numbering_plan()
    yield
    with django_db_blocker.unblock():
        for model in (NumberPrefix, Country, Dataset):
            model._default_manager.all().delete()


@pytest.fixture
def vendors(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Vendors]:
    both = Vendors()
    for name, value in {**KEYS, "MOCK_A_BASE_URL": both.a.url, "MOCK_B_BASE_URL": both.b.url}.items():
        monkeypatch.setenv(name, value)
    settings.PRESET_DIR = str(PRESETS)
    settings.SOURCE_A, settings.SOURCE_B = "mock_a", "mock_b"
    yield both
    both.a.stop()
    both.b.stop()


@pytest.fixture
def short_deadline(settings: Any) -> None:
    settings.SEARCH_DEADLINE_S, settings.CALL_LIFETIME_S = 0.3, 0.8
