"""Whose turn it is: when a thread lets go of its connection."""

import pytest
from django.db import connection, transaction

from accounts.turns import give_connection_back


@pytest.mark.django_db(transaction=True)
def test_a_connection_goes_back_to_its_pool_but_in_no_transaction() -> None:
    with transaction.atomic():
        raw = connection.connection
        give_connection_back()
        assert connection.connection is raw
    connection.ensure_connection()
    give_connection_back()
    assert (connection.connection is None) == ("pool" in connection.settings_dict["OPTIONS"])
