"""How many standbys must confirm a commit."""

import pytest

from core.postgresql.replication import required_standbys


@pytest.mark.parametrize(
    ("names", "number"),
    [
        ("", 0),
        (" ", 0),
        ("*", 1),
        ("db2", 1),
        ("db2, db3", 1),
        ("1 (db2)", 1),
        ("2 (db2, db3, db4)", 2),
        ("FIRST 2 (db2, db3)", 2),
        ("any 3(*)", 3),
        (' ANY 2 ("first 9 (", db3)', 2),
        ('"2 (db2"', 1),
        ("first", 1),
    ],
)
def test_required_standbys_are_read_from_the_setting(names: str, number: int) -> None:
    assert required_standbys(names) == number
