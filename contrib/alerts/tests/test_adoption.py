"""A database from before alerts were an add-on keeps their rows, and all that refers to them."""

from pathlib import Path

import pytest

from tests.adoption import Adopted, columns_of, execute, installations, sqlite
from tests.test_upgrades import Installation, dumps, postgresql, roles

__all__ = ["installations", "postgresql", "roles"]
pytestmark = [pytest.mark.once, pytest.mark.slow]

TABLES = ("monitoring_incident", "monitoring_alertmute", "monitoring_alertrecipient", "accounts_notice")
#: Of notices: groups and users by permission.
HOLDERS = {
    "add_notice": [["night shift", "operator"], []],
    "change_notice": [["night shift"], ["olga"]],
    "delete_notice": [[], []],
    "view_notice": [[], []],
}
ROWS = """
INSERT INTO monitoring_incident
    (id, kind, subject, title, summary, hint, first_seen_at, last_seen_at, opened_at, notified_at)
    VALUES (7, 'data.stale', 'ftc', 'Complaint data is stale', '', '', '2026-01-02', '2026-01-02', '2026-01-02',
        '2026-01-02');
INSERT INTO monitoring_alertmute (id, kind, subject, until, created_by, created_at, reason)
    VALUES (8, 'data.stale', '', '2026-01-03', 'olga', '2026-01-02', 'known');
INSERT INTO monitoring_alertrecipient (id, email, severities, is_active, note)
    VALUES (9, 'desk@example.org', 'all', true, '');
INSERT INTO accounts_notice (id, event, channel, target, payload, created_at, attempts, outcome, incident_id)
    VALUES (10, 'incident.opened', 'email', 'desk@example.org', '{}', '2026-01-02', 1, 'given up', 7);
"""


def of(installation: Installation) -> Adopted:
    return Adopted(installation, app="monitoring", migration="0005_low_balance_start", model="notice")


@pytest.mark.parametrize("is_switched_on_later", [False, True], ids=["at once", "later"])
def test_rows_permissions_and_history_follow(installations: list[Installation], is_switched_on_later: bool) -> None:
    old, new = installations
    adopted = of(old)
    adopted.create_as_before()
    execute(old, ROWS)
    columns = columns_of(old, TABLES)
    before = old.rows(columns)
    assert all(before.values())
    assert adopted.referring() == {"monitoring": [HOLDERS, ["1"]]}
    if is_switched_on_later:
        adopted.migrate("none")
    adopted.migrate("")
    assert old.rows(columns) == before
    assert adopted.referring() == {"alerts": [HOLDERS, ["1"]]}
    adopted.write_history_as_before()
    assert adopted.referring().keys() == {"monitoring", "alerts"}
    adopted.migrate("")
    assert adopted.referring() == {"alerts": [HOLDERS, ["1", "2"]]}
    of(new).migrate("")
    assert old.schema() == new.schema()
    assert "not reversible" in old.service.run_command("migrate", "alerts", "zero").stderr
    assert old.rows(columns) == before


@pytest.mark.parametrize("dump", dumps("sqlite"))
@pytest.mark.parametrize("addons", ["none", ""])
def test_release_is_upgraded_with_its_permissions(dump: Path, tmp_path: Path, addons: str) -> None:
    old, new = sqlite(tmp_path)
    execute(old, dump.read_text(encoding="utf-8"))
    of(old).migrate(addons)
    for each in (old, new):
        of(each).migrate("")
    assert old.schema() == new.schema()
    assert of(old).referring() == of(new).referring()
