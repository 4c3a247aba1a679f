"""A database from before file look-ups were an add-on keeps their rows, and all that refers to them."""

from pathlib import Path

import pytest

from tests.adoption import Adopted, assert_made_by_the_add_on_alone, columns_of, execute, sqlite
from tests.test_upgrades import Installation, dumps

pytestmark = [pytest.mark.once, pytest.mark.slow]

TABLES = ("lookup_filelookup", "lookup_filelookuprow")
ADDED, VIEWED = "add_filelookup", "view_filelookup"
HOLDERS = {ADDED: [["night shift", "operator"], []], VIEWED: [["night shift"], ["olga"]]}
ROWS = """
INSERT INTO lookup_filelookup
    (id, state, error, file_name, columns, delimiter, created_at, seen_at, run, url, host, user_id)
    VALUES (7, 'done', '', 'numbers.csv', '["number"]', ',', '2026-01-02', '2026-01-02', '', '', '', 1);
INSERT INTO lookup_filelookuprow (id, line, cells, number, problem, outcome, result, lookup_id)
    VALUES (8, 2, '["12125550100"]', 12125550100, '', 'found', '{"name_a": "Bakery"}', 7);
"""


def of(installation: Installation) -> Adopted:
    return Adopted(installation, app="lookup", migration="0005_file_lookup_wait", model="filelookup")


@pytest.mark.parametrize("is_switched_on_later", [False, True], ids=["at once", "later"])
def test_rows_permissions_and_history_follow(installations: list[Installation], is_switched_on_later: bool) -> None:
    old, new = installations
    adopted = of(old)
    adopted.create_as_before()
    execute(old, ROWS)
    columns = columns_of(old, TABLES)
    before = old.rows(columns)
    assert all(before.values())
    assert adopted.referring() == {"lookup": [HOLDERS, ["1"]]}
    if is_switched_on_later:
        adopted.migrate("none")
        refused = old.service.run_command("check", "--database", "default")
        assert "No add-on in ADDONS uses lookup_filelookuprow" in refused.stderr
    adopted.migrate("")
    assert old.rows(columns) == before
    assert adopted.referring() == {"file_lookups": [HOLDERS, ["1"]]}
    adopted.write_history_as_before()
    assert adopted.referring().keys() == {"lookup", "file_lookups"}
    adopted.migrate("")
    assert adopted.referring() == {"file_lookups": [HOLDERS, ["1", "2"]]}
    of(new).migrate("")
    assert old.schema() == new.schema()
    assert "not reversible" in old.service.run_command("migrate", "file_lookups", "zero").stderr
    assert old.rows(columns) == before


def test_kernel_alone_makes_no_table(installations: list[Installation]) -> None:
    """The add-on makes it when it is switched on."""
    assert_made_by_the_add_on_alone(installations, of, TABLES)


@pytest.mark.parametrize("dump", dumps("sqlite"))
def test_release_is_upgraded_before_it_is_switched_on(dump: Path, tmp_path: Path) -> None:
    old, new = sqlite(tmp_path)
    execute(old, dump.read_text(encoding="utf-8"))
    of(old).migrate("none")
    assert not set(TABLES) & old.columns().keys()
    for each in (old, new):
        of(each).migrate("")
    assert old.schema() == new.schema()
    assert of(old).referring() == of(new).referring()
