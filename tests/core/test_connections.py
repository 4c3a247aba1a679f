"""When a thread returns its connection to the pool."""

import pytest
from django.db import connection, transaction

from core.db import release_connection


@pytest.mark.django_db(transaction=True)
def test_connection_returns_to_its_pool_outside_transactions() -> None:
    with transaction.atomic():
        raw = connection.connection
        release_connection()
        assert connection.connection is raw
    connection.ensure_connection()
    release_connection()
    assert (connection.connection is None) == ("pool" in connection.settings_dict["OPTIONS"])
