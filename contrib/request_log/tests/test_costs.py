"""What the row of a search costs."""

import pytest

from tests.test_costs import postgres_url, search, service, test_a_search_writes_no_more_than_its_debit

__all__ = ["postgres_url", "search", "service", "test_a_search_writes_no_more_than_its_debit"]
pytestmark = [pytest.mark.once, pytest.mark.slow]


@pytest.fixture
def environment() -> dict[str, str]:
    return {}


@pytest.fixture
def most_wal() -> int:
    """The row has more columns and indexes than a ledger entry."""
    return 3_000
