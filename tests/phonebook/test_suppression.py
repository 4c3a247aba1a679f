"""Imports skip a suppressed number until it is unsuppressed, whatever happens to its cache version."""

import pytest

from phonebook import cache_versions
from phonebook.models import CacheVersion
from phonebook.suppression import SuppressedNumbers, suppress, unsuppress
from tests.api import NUMBER
from tests.phonebook.rows import cache_version_of

pytestmark = pytest.mark.django_db

OTHER = "493023125043"


def test_a_number_stays_suppressed_until_unsuppressed() -> None:
    suppress([NUMBER])
    cache_versions.bump([NUMBER, OTHER])
    suppressed = SuppressedNumbers()
    assert (int(NUMBER) in suppressed, OTHER in suppressed) == (True, False)
    before = cache_version_of(NUMBER)
    assert (unsuppress([NUMBER, OTHER]), unsuppress([NUMBER, OTHER])) == (1, 0)
    assert not SuppressedNumbers()
    assert cache_version_of(NUMBER) == before


def test_suppressing_changes_the_version_and_names_no_number() -> None:
    cache_versions.bump([NUMBER])
    before = cache_version_of(NUMBER)
    suppress([NUMBER])
    assert cache_version_of(NUMBER) not in ("", before)
    assert NUMBER not in str(CacheVersion.objects.values().get())
