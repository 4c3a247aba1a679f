"""Commands about numbers add one entry to the console's history, without numbers or names."""

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry

from core.history import command_actor
from phonebook.imports import numbering_plan
from phonebook.imports.numbering_plan import NumberingPlan
from phonebook.models import Contact
from tests.api import NUMBER
from tests.phonebook.commands.imports import JANE, Ran

pytestmark = pytest.mark.django_db
MASKED = "49********42"


def history() -> list[tuple[str, str, str]]:
    """Action, object and message of each entry; the user is whoever runs the tests."""
    entries = LogEntry.objects.order_by("pk")
    assert set(entries.values_list("user__username", flat=True)) <= {command_actor()}
    rows = str(list(entries.values()))
    assert not any(word in rows for word in (NUMBER, str(JANE), "Alice", "Jane"))
    flags = {2: "changed", 3: "deleted", 5: "imported"}
    return [(flags[entry.action_flag], entry.object_repr, entry.change_message) for entry in entries]


def test_set_rule_adds_one_entry() -> None:
    Ran("set_rule", NUMBER, "--spam", "yes", "--name", "Alice Example")
    Ran("set_rule", NUMBER, "--remove")
    assert history() == [("changed", MASKED, "Set: spam, name."), ("deleted", MASKED, "Removed.")]


def test_forget_adds_entries_before_and_after() -> None:
    Contact.objects.create(number=int(NUMBER), name="Alice Example")
    Ran("forget", NUMBER, str(JANE), "--block")
    Ran("forget", NUMBER, "--unblock")
    began, (forgot, what, message), unblocked = history()
    assert began == (forgot, what, f"Began to erase the data of {what}.")
    assert (forgot, what) == ("deleted", f"{MASKED}, 1********42")
    assert message.startswith(f"Erased {MASKED}, 1********42. Deleted: contacts 1,")
    assert message.endswith("Blocked: imports skip 2 of 2 numbers.")
    assert unblocked == ("changed", MASKED, "Unblocked 1 of 1 numbers: imports add them again.")


def test_imports_add_one_entry_each(file: Any) -> None:
    contacts = file(f"number,name\n{JANE},Jane Example\n+12125550143,Jane Roe\nx,y\n", name=f"{JANE}-Jane.csv")
    complaints = file(f"number,day,total\n{JANE},2026-01-02,3\n")
    Ran("import_contacts", contacts)
    Ran("import_complaints", complaints, "--json")
    (first, second) = history()
    assert first[:2] == second[:2] == ("imported", "import")
    assert first[2].endswith("2 added, 0 changed, 0 unchanged, 0 removed, 0 repeated, 1 rejected.")
    assert second[2].endswith("1 added, 0 changed, 0 unchanged, 0 removed, 0 repeated, 0 rejected.")
    kinds = LogEntry.objects.order_by("pk").values_list("content_type__model", flat=True)
    assert list(kinds) == ["contact", "complaintday"]


def test_loading_the_numbering_plan_adds_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = NumberingPlan("1.0", {4930: "Berlin"}, {"DE": "Germany"})
    monkeypatch.setattr(numbering_plan, "installed_version", lambda: plan.version)
    monkeypatch.setattr(numbering_plan, "read_installed", lambda: plan)
    for _ in range(2):
        Ran("load_numbering_plan")
    assert history() == [("imported", "numbering plan 1.0", "Loaded: 2 rows added, 0 changed, 0 removed.")]
