"""The tables were the kernel's in 0.1.0: their rows and History follow, whenever the add-on is switched on."""

import pytest

from tests.adoption import Adopted, columns_of, execute
from tests.releases.make import HERE
from tests.test_upgrades import SET_SEQUENCES, Installation, with_roles

pytestmark = [pytest.mark.once, pytest.mark.slow]

TABLES = ("phonebook_addressbook", "phonebook_addressbookcard", "phonebook_addressbookcontact")
HISTORY = """
INSERT INTO django_admin_log
(action_time, object_id, object_repr, action_flag, change_message, content_type_id, user_id)
SELECT CURRENT_TIMESTAMP, '1', 'kept', 2, '', id, (SELECT min(id) FROM auth_user)
FROM django_content_type WHERE app_label = 'phonebook' AND model = 'addressbookcontact';
"""


def upgraded(installation: Installation, roles: dict[str, str], *addons: str) -> list[list[str]]:
    """The schema after a `migrate` with each of `addons`."""
    execute(installation, with_roles((HERE / f"0.1.0.{installation.vendor}.sql").read_text(encoding="utf-8"), roles))
    if installation.vendor == "postgresql":
        execute(installation, SET_SEQUENCES)
    execute(installation, HISTORY)
    columns = columns_of(installation, TABLES)
    before = installation.rows(columns)
    assert all(before.values())
    adopted = Adopted(installation, app="phonebook", migration="0001_initial", model="addressbookcontact")
    for chosen in addons:
        assert adopted.referring() == {"phonebook": [{}, ["1"]]}
        adopted.migrate(chosen)
    assert adopted.referring() == {"address_books": [{}, ["1"]]}
    assert installation.rows(columns) == before
    return installation.schema()


def test_release_keeps_rows_and_history(installations: list[Installation], request: pytest.FixtureRequest) -> None:
    at_once, later = installations
    roles: dict[str, str] = request.getfixturevalue("roles") if at_once.vendor == "postgresql" else {}
    schema = upgraded(at_once, roles, "file_formats address_books")
    assert upgraded(later, roles, "none", "file_formats address_books") == schema
