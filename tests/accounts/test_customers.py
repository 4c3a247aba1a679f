"""A customer owns several tokens."""

import json
import random
from collections.abc import Sequence
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts import customers, tokens
from accounts.models import ApiToken, CreditEntry, Customer
from accounts.newest import newest

pytestmark = pytest.mark.django_db


def make(name: str = "Example Ltd", *contacts: str) -> Customer:
    return customers.create(name=name, contacts=contacts)


def token_of(customer: Customer | None, **options: Any) -> ApiToken:
    return tokens.issue(**{"name": "pbx", "initial_credits": 4, "actor": "test", "customer": customer, **options}).token


def run(*words: object) -> str:
    out = StringIO()
    call_command(*map(str, words), stdout=out, stderr=StringIO())
    return out.getvalue()


def test_names_that_look_alike_are_not_two_customers() -> None:
    persian = "\u0639\u0644\u06cc\u200c\u0631\u0636\u0627"
    made = make(persian)
    assert made.name == persian
    for name in (persian, persian.replace("\u200c", "")):
        assert customers.get_or_create(name=name) == (made, False)
    family = "\U0001f468\u200d\U0001f469"
    assert customers.get_or_create(name=f"Kita {family}")[1]
    assert customers.get_by_name_or_id(f"kita {family}").name == f"Kita {family}"
    with pytest.raises(ValueError, match="printable"):
        make("Example\u200cLtd")


# --- Customers and their tokens -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "contacts"), [("", []), ("x" * 101, []), ("x", ["nobody"]), ("x", [""])])
def test_invalid_name_or_address_creates_nothing(name: str, contacts: list[str]) -> None:
    with pytest.raises(ValueError, match=r"needs a name|e-mail address"):
        customers.create(name=name, contacts=contacts)
    assert not Customer.objects.exists()


def test_customer_is_named_by_id_or_unique_name() -> None:
    one, *_ = make("Example Ltd"), make("Twin"), make("TWIN")
    for text in (f"#{one.pk}", str(one.pk), str(one), " example ltd "):
        assert customers.get_by_name_or_id(text) == one
    for text in ("Twin", "Example", "#999", "", "#" + "9" * 40):
        with pytest.raises(ValueError, match=r"^(There is no customer|Several customers)"):
            customers.get_by_name_or_id(text)


def test_number_of_a_customers_tokens_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accounts.customers.MAX_TOKENS", 1)
    customer = make()
    token_of(customer)
    with pytest.raises(ValueError, match="at most 1 tokens"):
        token_of(customer)
    assert ApiToken.objects.count() == 1


def test_commands_create_and_list_customers_and_their_tokens() -> None:
    made = json.loads(run("create_customer", "Example Ltd", "--contact", "owner@example.org", "--json"))
    assert (made["name"], made["contacts"]) == ("Example Ltd", ["owner@example.org"])
    issued = json.loads(run("create_token", "pbx", "--credits", 7, "--customer", "example ltd", "--json"))
    assert issued["customer"] == made["id"]
    assert json.loads(run("list_customers", "--json")) == [{**made, "tokens": 1, "credits": 7}]
    assert run("list_customers").splitlines()[1].split() == [str(made["id"]), "1", "7", "Example", "Ltd"]
    with pytest.raises(CommandError, match="no customer with this name"):
        run("create_token", "pbx", "--credits", 7, "--customer", "nobody")
    with pytest.raises(CommandError, match="e-mail address"):
        run("create_customer", "Other Ltd", "--contact", "nobody")


# --- The newest entries of several tokens ----------------------------------------------------------------------------


def fill(counts: Sequence[int], seed: int) -> list[int]:
    """A token with each of these numbers of searches, at random times of which some are equal."""
    made, now = random.Random(seed), timezone.now()
    owners = [token_of(None, initial_credits=0) for _ in counts]
    CreditEntry.objects.bulk_create(
        CreditEntry(
            token=owner,
            amount=-1,
            balance_after=1,
            kind="search",
            created_at=now - timedelta(hours=made.randrange(50 * (index + 1))),
        )
        for index, (owner, count) in enumerate(zip(owners, counts, strict=True))
        for _ in range(count)
    )
    return [owner.pk for owner in owners]


@pytest.mark.parametrize("counts", [[0], [3, 40], [1] * 30, [120, 1, 1, 7], [25, 25, 25, 0]])
@pytest.mark.parametrize("limit", [1, 20, 101])
def test_newest_entries_are_those_of_the_whole_order(counts: list[int], limit: int) -> None:
    fill([60], seed=0)  # of another customer
    ids = fill(counts, seed=limit)
    searches = CreditEntry.objects.filter(kind="search")
    of_them = searches.filter(token__in=ids).order_by("-created_at", "-pk").values_list("pk", flat=True)
    expected = list(of_them[:limit])
    with CaptureQueriesContext(connection) as captured:
        assert [entry.pk for entry in newest(searches, ids, limit)] == expected
    assert len(captured) <= 5
