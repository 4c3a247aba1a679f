"""The token commands: results on stdout, messages on stderr, one clear sentence for a mistake."""

import json
import re
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from accounts import credits, tokens
from accounts.models import ApiToken, CreditEntry
from tests import awaited
from tests.account_fixtures import tokens_of_one_customer

pytestmark = pytest.mark.django_db
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def run(*args: Any) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command(*[str(arg) for arg in args], stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def run_json(*args: Any) -> Any:
    return json.loads(run(*args, "--json")[0])


def test_create_token_prints_only_the_token_on_stdout() -> None:
    out, err = run("create_token", "pbx", "--credits", 100)
    assert awaited.verify(out.strip()).credits == 100
    assert "pbx" in err
    assert out.strip() not in err
    out, err = run("create_token", "pbx", "--credits", 100, "--quiet")
    assert (out.count("\n"), err) == (1, "")


def test_create_token_json_has_the_documented_keys() -> None:
    made = run_json("create_token", "pbx", "--credits", 100, "--days", 2, "--rate-limit", 7)
    keys = "id name hint customer test credits rate_limit state expires_at created_at api_key"
    assert made.keys() == set(keys.split())
    assert (made["name"], made["test"], made["credits"], made["state"]) == ("pbx", False, 100, "active")
    assert (made["rate_limit"], run_json("create_token", "pbx", "--test")["rate_limit"]) == (7, None)
    assert isinstance(made["id"], int)
    assert MOMENT.fullmatch(made["created_at"])
    assert MOMENT.fullmatch(made["expires_at"])
    assert awaited.verify(made["api_key"]).pk == made["id"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["", "--credits", "1"],
        ["pbx", "--credits", "-1"],
        ["pbx", "--credits", "1", "--days", "0"],
        ["pbx", "--credits", "1", "--contact", "nobody"],
        ["pbx", "--credits", "1", "--contact", f"{'x' * 250}@example.org"],
        ["pbx", "--credits", "1", "--contact", "a@example.org\nBcc: b@example.org"],
        ["pbx", "--credits", "1", "--low-balance-at", "-1"],
        ["pbx", "--credits", "1", "--low-balance-at", str(10**16)],
        ["pbx", "--credits", "1", "--rate-limit", "0"],
        ["pbx", "--credits", "1", "--rate-limit", "100001"],
    ],
)
def test_create_token_with_invalid_values_issues_none(arguments: list[str]) -> None:
    with pytest.raises(CommandError):
        run("create_token", *arguments)
    assert not ApiToken.objects.exists()


def test_create_token_issues_a_test_token() -> None:
    made = run_json("create_token", "pbx", "--test")
    assert (made["test"], made["credits"]) == (True, 0)
    assert awaited.verify(made["api_key"]).is_test
    run("create_token", "live", "--credits", 7)
    assert [(row["name"], row["test"]) for row in run_json("list_tokens")] == [("pbx", True), ("live", False)]
    assert [line.split()[1] for line in run("list_tokens")[0].splitlines()] == ["CREDITS", "test", "7"]
    assert run_json("rotate_token", made["id"])["test"] is True
    assert "no credits (a test token)" in run("create_token", "pbx", "--test")[1]


@pytest.mark.parametrize(
    "arguments",
    [[], ["--test", "--credits", "0"], ["--test", "--contact", "a@example.org"], ["--test", "--low-balance-at", "1"]],
)
def test_create_token_needs_either_credits_or_test(arguments: list[str]) -> None:
    with pytest.raises(CommandError):
        run("create_token", "pbx", *arguments)
    assert not ApiToken.objects.exists()


def test_create_token_sets_contact_and_threshold() -> None:
    run("create_token", "pbx", "--credits", 1, "--contact", "desk@example.org", "--low-balance-at", 0)
    token = ApiToken.objects.get()
    assert (token.contact, token.low_balance_at) == ("desk@example.org", 0)


def test_list_tokens_shows_no_secret() -> None:
    made = run_json("create_token", "pbx", "--credits", 100)
    assert run_json("list_tokens") == [{key: value for key, value in made.items() if key != "api_key"}]
    assert "pbx" in run("list_tokens")[0]
    assert made["api_key"] not in run("list_tokens")[0]


def test_rotate_token_with_and_without_grace() -> None:
    first = run_json("create_token", "pbx", "--credits", 1)
    second = run_json("rotate_token", first["id"], "--grace-minutes", 5)
    assert awaited.verify(first["api_key"]).pk == awaited.verify(second["api_key"]).pk == second["id"]
    third = run("rotate_token", first["id"], "--quiet")[0].strip()
    assert awaited.verify(third).pk == first["id"]
    with pytest.raises(tokens.InvalidToken):
        awaited.verify(second["api_key"])


@pytest.mark.parametrize("minutes", ["-1", "129601", "9" * 30, f"-{'9' * 30}"])
def test_grace_period_has_a_limit(minutes: str) -> None:
    made = run_json("create_token", "pbx", "--credits", 1)
    with pytest.raises(CommandError, match=f"^A grace period is 0 to {tokens.MAX_GRACE.days} days.$"):
        run("rotate_token", made["id"], f"--grace-minutes={minutes}")


def test_revoke_token() -> None:
    made = run_json("create_token", "pbx", "--credits", 1)
    assert run_json("revoke_token", made["id"], "--reason", "lost")["state"] == "revoked"
    assert "already" in run("revoke_token", made["id"])[0]
    with pytest.raises(CommandError, match="revoked"):
        run("rotate_token", made["id"])


def test_top_up_with_a_reference_is_done_once() -> None:
    made = run_json("create_token", "pbx", "--credits", 1)
    arguments = ("top_up", made["id"], 5, "--note", "invoice", "--reference", "inv-1")
    assert run_json(*arguments)["credits"] == 6
    assert run_json(*arguments)["credits"] == 6
    with pytest.raises(CommandError, match="reference"):
        run("top_up", made["id"], 6, "--note", "invoice", "--reference", "inv-1")
    assert CreditEntry.objects.filter(kind="top-up").count() == 1


@pytest.mark.parametrize("command", [["rotate_token"], ["revoke_token"], ["top_up", "5", "--note", "x"]])
@pytest.mark.parametrize("token_id", ["999", "0", "9" * 30])
def test_unknown_token_is_an_error(command: list[str], token_id: str) -> None:
    with pytest.raises(CommandError, match="There is no token"):
        run(command[0], token_id, *command[1:])


def test_transfer_credits_prints_both_tokens() -> None:
    one, other = tokens_of_one_customer(30, 5)
    move = ("transfer_credits", one.pk, other.pk, 20, "--note", "closed", "--reference", "MOVE-1")
    printed = run_json(*move)
    assert [(printed[end]["id"], printed[end]["credits"]) for end in ("from", "to")] == [(one.pk, 10), (other.pk, 25)]
    assert run_json(*move) == printed
    taken, given = CreditEntry.objects.filter(kind="transfer").order_by("pk")
    assert run(*move)[0] == (
        f"Token {one.pk} 'till 1' has 10 credits, token {other.pk} 'till 2' has 25 (ledger entries {taken.pk} and "
        f"{given.pk}: +20).\n"
    )


def test_audit_credits_lists_transfers_without_counterpart() -> None:
    one, other = tokens_of_one_customer(30, 5)
    credits.transfer(from_token=one, to_token=other, amount=20, actor="op", reason="closed")
    assert run_json("audit_credits") == {"disagreements": []}
    forged = credits.change_balance(
        token=one, amount=-1, kind=CreditEntry.Kind.TRANSFER, other_token=other, actor="op", reason="x", reference="r"
    )
    out = StringIO()
    with pytest.raises(SystemExit, match="1"):
        call_command("audit_credits", "--json", stdout=out)
    assert json.loads(out.getvalue()) == {"disagreements": [], "unpaired_transfers": [forged.pk]}
    with pytest.raises(SystemExit):
        call_command("audit_credits", stdout=(out := StringIO()))
    assert f"Transfers without their other entry: ledger entries {forged.pk}." in out.getvalue()


def test_audit_credits_is_clean_or_exits_1_with_a_list() -> None:
    made = run_json("create_token", "pbx", "--credits", 3)
    assert run_json("audit_credits") == {"disagreements": []}
    ApiToken.objects.update(credits=4)
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("audit_credits", "--json", stdout=out)
    assert ended.value.code == 1
    row = {"token_id": made["id"], "name": "pbx", "credits": 4, "ledger_sum": 3}
    assert json.loads(out.getvalue()) == {"disagreements": [{**row, "newest_balance": 3, "first_wrong_row": None}]}


def test_audit_credits_since_a_day_checks_its_rows() -> None:
    run("create_token", "pbx", "--credits", 3)
    assert run("audit_credits", "--since", "2026-01-31")[0].startswith(
        "Every balance agrees with its ledger entries since"
    )
    ApiToken.objects.update(credits=4)
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("audit_credits", "--since", "2026-01-31", stdout=out)
    assert re.search("'pbx': balance 4, balance of the newest ledger entry 3$", out.getvalue().strip())
    with pytest.raises(CommandError, match="invalid day"):
        run("audit_credits", "--since", "yesterday")
