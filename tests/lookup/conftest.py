"""Fixtures for what the built-in sources know."""

from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from accounts import turns
from lookup.datasets import plan
from lookup.models import Country, Dataset, NumberPrefix


@pytest.fixture(scope="module")
def numbering_plan(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The whole numbering plan, loaded once for a module's tests and gone afterwards.

    It is committed, so that it is there for each of them; tests that flush the database must not ask for it.
    """
    with django_db_blocker.unblock(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(turns, "SQLITE_PAUSE_S", 0)
        plan.load_numbering_plan()
    yield
    with django_db_blocker.unblock():
        for model in (NumberPrefix, Country, Dataset):
            model._default_manager.all().delete()
