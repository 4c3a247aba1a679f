"""The History entries of token commands and exports, and the user that they name."""

import os
import pwd
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.test import Client

from accounts import credits
from accounts.models import ApiToken, CreditEntry
from core import history as console_history
from tests.account_fixtures import tokens_of_one_customer
from tests.accounts.admin.pages import LEDGER, history
from tests.console_pages import words

pytestmark = pytest.mark.django_db

EXPORT = f"{LEDGER}export/"


@pytest.fixture(autouse=True)
def alice(monkeypatch: pytest.MonkeyPatch) -> str:
    """The user who runs the commands."""
    monkeypatch.delenv("SUDO_USER", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_name="alice"))
    return "alice (command line)"


def run(*arguments: Any) -> None:
    call_command(*map(str, arguments), stdout=StringIO(), stderr=StringIO())


# --- The user ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "actor"),
    [
        (dict.fromkeys(("LOGNAME", "USER", "LNAME", "USERNAME"), "mallory"), "alice (command line)"),
        ({"SUDO_USER": "bob\n"}, "bob via sudo as alice (command line)"),
    ],
)
def test_actor_is_named_by_the_system(environment: dict[str, str], actor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert console_history.command_actor() == actor


def test_actor_without_a_passwd_entry_is_the_uid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    assert console_history.command_actor() == f"uid {os.getuid()} (command line)"


def test_long_actor_is_cut_to_the_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_name="a" * 300))
    monkeypatch.setenv("SUDO_USER", "b" * 300)
    assert len(console_history.command_actor()) == console_history.MAX_ACTOR
    assert console_history.command_actor().endswith(" (command line)")
    run("create_token", "pbx", "--credits", 5)
    assert history()[0][0] == CreditEntry.objects.get().actor == console_history.command_actor()


def test_user_of_commands_cannot_log_in(alice: str) -> None:
    run("create_token", "pbx", "--credits", 5)
    user = User.objects.get(username=alice)
    assert (user.is_active, user.is_staff, user.is_superuser, user.has_usable_password()) == (False,) * 4
    assert authenticate(username=alice, password="") is None
    with pytest.raises(ValidationError):
        User(username=alice, password="x").full_clean()


# --- The entries ---------------------------------------------------------------------------------------------------


def test_each_token_command_records_one_entry(alice: str) -> None:
    run("create_token", "pbx", "--credits", 5, "--days", 30)
    token = ApiToken.objects.get()
    run("top_up", token.pk, 7, "--note", "invoice", "--reference", "INV-1")
    run("rotate_token", token.pk, "--grace-minutes", 5)
    run("revoke_token", token.pk, "--reason", "lost")
    top_up = token.entries.get(kind="top-up")
    assert history() == [
        (alice, "Issued: 5 credits, 30 days."),
        (alice, f"Added ledger entry {top_up.pk}, top-up of +7 credits, balance 12. Reason: invoice"),
        (alice, "Rotated, with 5 minutes of grace for the earlier token."),
        (alice, "Revoked. Reason: lost"),
    ]
    assert set(CreditEntry.objects.values_list("actor", flat=True)) == {alice}


def test_transfer_is_in_the_history_of_both_tokens(alice: str) -> None:
    one, other = tokens_of_one_customer(30, 0)
    run("transfer_credits", one.pk, other.pk, 20, "--note", "closed", "--reference", "MOVE-1")
    taken, given = CreditEntry.objects.filter(kind="transfer").order_by("pk")
    entries = f"ledger entries {taken.pk} and {given.pk}. Reason: closed"
    moved = [(alice, f"Moved 20 credits to till 2 (#{other.pk}), {entries}")]
    received = [(alice, f"Received 20 credits from till 1 (#{one.pk}), {entries}")]
    assert history() == moved + received
    assert [entry.actor for entry in (taken, given)] == [alice] * 2
    run("transfer_credits", one.pk, other.pk, 20, "--note", "closed", "--reference", "MOVE-1")
    with pytest.raises(CommandError, match="has only 10 credits"):
        run("transfer_credits", one.pk, other.pk, 20, "--note", "closed")
    assert history() == moved + received


def test_commands_that_change_nothing_record_nothing(token: ApiToken) -> None:
    run("top_up", token.pk, 7, "--note", "invoice", "--reference", "INV-1")
    run("revoke_token", token.pk)
    before = history()
    run("top_up", token.pk, 7, "--note", "invoice", "--reference", " INV-1 ")
    run("revoke_token", token.pk)
    for refused in (
        ["create_token", "", "--credits", 5],
        ["top_up", token.pk, 8, "--note", "invoice", "--reference", "INV-1"],
        ["rotate_token", token.pk],
    ):
        with pytest.raises(CommandError):
            run(*refused)
    run("list_tokens")
    run("audit_credits")
    assert history() == before


def test_history_contains_no_jwt(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("create_token", "pbx", "--credits", "5", "--quiet")
    call_command("rotate_token", str(ApiToken.objects.get().pk), "--quiet")
    keys = capsys.readouterr().out.split()
    rows = str(list(LogEntry.objects.values()))
    assert len(keys) == 2
    assert not any(part in rows for key in keys for part in key.split("."))


# --- The export --------------------------------------------------------------------------------------------------


def test_each_export_is_recorded_with_its_file_name(admin_client: Client, token: ApiToken) -> None:
    credits.top_up(token=token, amount=5, actor="op", reason="paid", reference="INV-1")
    assert admin_client.post(f"{EXPORT}?token=%23{token.pk}&kind=top-up&since=2000-01-01").status_code == 200
    assert admin_client.post(f"{EXPORT}?reference=INV-1&since=2000-01-01").status_code == 200
    assert history() == [
        ("admin", f"Exported ledger-token-{token.pk}-top-up-from-2000-01-01T0000.csv."),
        ("admin", "Exported ledger-from-2000-01-01T0000.csv: entries that match a text."),
    ]
    assert "exported" in admin_client.get("/admin/admin/logentry/").text


def test_history_counts_entries_and_names_an_object_once(
    admin_client: Client, token: ApiToken, search: CreditEntry
) -> None:
    boss = User.objects.get(username="admin")
    console_history.record(action=console_history.Action.CHANGE, target=search, message="Erased.", user=boss)
    admin_client.post(f"/admin/accounts/apitoken/{token.pk}/edit/", {"name": "renamed"})
    text = words(admin_client.get("/admin/admin/logentry/").text)
    assert f" Ledger entry {search.pk} " in text
    assert "ledger entry Ledger" not in text
    assert f" API token renamed (#{token.pk}) " in text
    assert " 2 entries" in text


def test_refused_export_is_not_recorded(admin_client: Client, token: ApiToken) -> None:
    assert admin_client.post(f"{EXPORT}?since=never").status_code == 302
    response = admin_client.get(f"{EXPORT}?kind=issue")
    assert response["Location"] == f"{LEDGER}?kind=issue"
    assert history() == []
