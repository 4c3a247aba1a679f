"""A database from before address books were an add-on keeps their rows, and all that refers to them."""

import pytest

from tests.adoption import Adopted, assert_made_by_the_add_on_alone, columns_of, execute
from tests.test_upgrades import Installation

pytestmark = [pytest.mark.once, pytest.mark.slow]

TABLES = ("phonebook_addressbook", "phonebook_addressbookcard", "phonebook_addressbookcontact")
ROWS = """
INSERT INTO phonebook_addressbook (name, settings_digest, contacts, rejected, error) VALUES ('office', 'x', 1, 0, '');
INSERT INTO phonebook_addressbookcard (id, book_id, key, version, rejected) VALUES (7, 'office', 'k', 'v', 0);
INSERT INTO phonebook_addressbookcontact (id, card_id, number, name, location) VALUES (8, 7, 12125550100, 'Jane', '');
INSERT INTO phonebook_contact (id, number, name, location, updated_at, book)
    VALUES (9, 12125550100, 'Jane', '', '2026-01-02', 'office');
"""
KINDS = """
from django.contrib.contenttypes.models import ContentType
print([each.app_label for each in ContentType.objects.filter(model__startswith="addressbook")])
"""


def of(installation: Installation) -> Adopted:
    return Adopted(installation, app="phonebook", migration="0007_uploads_moved", model="addressbook")


@pytest.mark.parametrize("is_switched_on_later", [False, True], ids=["at once", "later"])
def test_rows_and_history_follow(installations: list[Installation], is_switched_on_later: bool) -> None:
    old, new = installations
    adopted = of(old)
    adopted.create_as_before()
    execute(old, ROWS)
    columns = columns_of(old, (*TABLES, "phonebook_contact"))
    before = old.rows(columns)
    assert all(before.values())
    assert adopted.referring() == {"phonebook": [{}, ["1"]]}
    if is_switched_on_later:
        adopted.migrate("none")
        refused = old.service.run_command("check", "--database", "default")
        assert "No add-on in ADDONS uses phonebook_addressbookcontact" in refused.stderr
    adopted.migrate("")
    assert old.rows(columns) == before
    assert adopted.referring() == {"address_books": [{}, ["1"]]}
    adopted.write_history_as_before()
    adopted.migrate("")
    assert adopted.referring() == {"address_books": [{}, ["1", "2"]]}
    assert old.service.manage("shell", "--no-imports", "-v0", "-c", KINDS).strip() == str(["address_books"] * 3)
    of(new).migrate("")
    assert old.schema() == new.schema()
    assert "not reversible" in old.service.run_command("migrate", "address_books", "zero").stderr
    assert old.rows(columns) == before


def test_kernel_alone_makes_no_table(installations: list[Installation]) -> None:
    """The add-on makes them when it is switched on."""
    assert_made_by_the_add_on_alone(installations, of, TABLES)
