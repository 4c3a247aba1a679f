"""Credits move between the tokens of a customer: two entries that name each other, or nothing."""

from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts import audit, credits, customers, sales, tokens
from accounts.models import ApiToken, CreditEntry
from tests import awaited
from tests.account_fixtures import Tills, tokens_of_one_customer
from tests.accounts.admin.pages import NUMBER, amounts, balance

pytestmark = pytest.mark.django_db


def transfer(source: ApiToken, target: ApiToken, amount: int = 20, **options: Any) -> credits.Transfer:
    given: dict[str, Any] = {"actor": "op", "reason": "closed", **options}
    return credits.transfer(from_token=source, to_token=target, amount=amount, **given)


def assert_refused(source: ApiToken, target: ApiToken, match: str, amount: int = 20, **options: Any) -> None:
    before = list(CreditEntry.objects.order_by("pk").values()), list(ApiToken.objects.order_by("pk").values())
    with pytest.raises(ValueError, match=match):
        transfer(source, target, amount, **options)
    assert (list(CreditEntry.objects.order_by("pk").values()), list(ApiToken.objects.order_by("pk").values())) == before


def test_transfer_is_two_entries_that_name_each_other(tills: Tills) -> None:
    one, other = tills
    taken, given, is_new = transfer(one, other, reason=" closed ", reference=" MOVE-1 ")
    assert (taken.token_id, taken.amount, taken.balance_after, taken.other_token_id) == (one.pk, -20, 10, other.pk)
    assert (given.token_id, given.amount, given.balance_after, given.other_token_id) == (other.pk, 20, 25, one.pk)
    for entry in (taken, given):
        assert (entry.kind, entry.actor, entry.reason, entry.reference) == ("transfer", "op", "closed", "MOVE-1")
        assert (entry.price, entry.request_id, entry.number_hash, entry.refunds) == (None, "", None, None)
    assert (taken.counterpart, given.counterpart, is_new) == (given, taken, True)
    assert (balance(one), balance(other), audit.audit(), audit.unpaired_transfers()) == (10, 25, [], [])


def test_each_transfer_finds_its_own_counterpart(tills: Tills) -> None:
    moves = [transfer(*tills, amount=amount) for amount in (1, 1, 2)]
    assert all(move.taken.counterpart == move.given and move.given.counterpart == move.taken for move in moves)


def test_repeated_reference_moves_nothing(tills: Tills) -> None:
    first = transfer(*tills, reference="MOVE-1")
    tokens.revoke(token=tills[1])
    assert transfer(*tills, reference="MOVE-1") == first._replace(is_new=False)
    assert [balance(token) for token in tills] == [10, 25]


def test_reference_of_another_entry_is_refused(tills: Tills) -> None:
    one, other = tills
    transfer(one, other, 3, reference="MOVE-1")
    credits.top_up(token=other, amount=3, actor="op", reason="paid", reference="INV-1")
    assert_refused(one, other, "This reference was used", 4, reference="MOVE-1")
    assert_refused(other, one, "This reference was used", 3, reference="MOVE-1")
    assert_refused(one, other, "This reference was used", 3, reference="INV-1")
    with pytest.raises(credits.ChangeRefused, match="This reference was used"):
        credits.top_up(token=one, amount=3, actor="op", reason="paid", reference="MOVE-1")


@pytest.mark.parametrize("amount", [0, -1, 31, 10**9 + 1, 10**30])
def test_amount_that_cannot_be_moved_is_refused(tills: Tills, amount: int) -> None:
    assert_refused(*tills, "1 credit or more" if amount < 1 else "has only 30 credits", amount)


@pytest.mark.parametrize("text", [{"reason": " "}, {"reason": "x" * 201}, {"reference": "x" * 101}])
def test_transfer_without_valid_texts_is_refused(tills: Tills, text: dict[str, Any]) -> None:
    assert_refused(*tills, "characters", **text)


def test_balance_of_the_target_stays_in_its_range(tills: Tills) -> None:
    ApiToken.objects.filter(pk=tills[1].pk).update(credits=credits.MAX_BALANCE - 19)
    assert_refused(*tills, "The balance must stay")


def test_credits_stay_with_the_customer(tills: Tills) -> None:
    other = tokens.issue(name="x", initial_credits=30, customer=customers.create(name="Another"), actor="test").token
    ownerless = [tokens.issue(name="x", initial_credits=30, actor="test").token for _ in range(2)]
    for source, target in ((tills[0], other), (other, tills[0]), (tills[0], ownerless[0]), tuple(ownerless)):
        assert_refused(source, target, "tokens of the same customer")
    assert_refused(tills[0], tills[0], "Choose another token")


def test_the_customer_is_the_present_one(tills: Tills) -> None:
    """Not the one of when the form was opened."""
    ApiToken.objects.filter(pk=tills[1].pk).update(customer=customers.create(name="Another"))
    assert_refused(*tills, "tokens of the same customer")


def test_test_tokens_neither_give_nor_get(tills: Tills) -> None:
    sandbox = tokens.issue(name="sandbox", customer=tills[0].customer, is_test=True, actor="test").token
    assert_refused(tills[0], sandbox, "A test token has no credits")
    assert_refused(sandbox, tills[0], "A test token has no credits")


def test_revoked_token_gives_and_does_not_get(tills: Tills) -> None:
    one, other = tills
    tokens.revoke(token=one)
    assert_refused(other, one, "is revoked, so nobody could spend the credits", 5)
    transfer(one, other, 30)
    assert (balance(one), balance(other), audit.audit(), audit.unpaired_transfers()) == (0, 35, [], [])


def test_expired_token_gives_and_gets(tills: Tills) -> None:
    """It can be rotated."""
    ApiToken.objects.update(expires_at=timezone.now())
    transfer(*tills)
    transfer(*tills[::-1])
    assert [balance(token) for token in tills] == [30, 5]


def test_moved_credits_are_spent_as_others(tills: Tills) -> None:
    transfer(*tills, amount=30)
    for n in range(35):
        awaited.charge(token=tills[1], request_id=f"r{n}", number=NUMBER, answer={})
    assert [balance(token) for token in tills] == [0, 0]


def test_revocation_moves_what_is_left(tills: Tills) -> None:
    one, other = tills
    awaited.charge(token=one, request_id="r", number=NUMBER, answer={})
    moved = tokens.revoke_and_move(token=one, to_token=other, reason="closed", actor="op")
    assert moved is not None
    assert (moved.taken.amount, moved.given.reason, balance(one), balance(other)) == (-29, "closed", 0, 34)
    one.refresh_from_db()
    assert (one.state, one.revoked_reason) == ("revoked", "closed")
    with pytest.raises(tokens.TokenRevoked, match="already revoked"):
        tokens.revoke_and_move(token=one, to_token=other, reason="again", actor="op")
    assert (audit.audit(), audit.unpaired_transfers()) == ([], [])


def test_revocation_without_credits_moves_nothing(tills: Tills) -> None:
    transfer(*tills, amount=30)
    assert tokens.revoke_and_move(token=tills[0], to_token=tills[1], reason="closed", actor="op") is None
    assert ApiToken.objects.get(pk=tills[0].pk).state == "revoked"
    assert amounts(tills[1], "transfer") == [30]


def test_refused_move_does_not_revoke(tills: Tills) -> None:
    tokens.revoke(token=tills[1])
    with pytest.raises(credits.ChangeRefused):
        tokens.revoke_and_move(token=tills[0], to_token=tills[1], reason="closed", actor="op")
    assert (ApiToken.objects.get(pk=tills[0].pk).state, balance(tills[0])) == ("active", 30)


# --- What it is not --------------------------------------------------------------------------------------------------


def test_transfer_is_neither_sale_nor_cost(settings: Any) -> None:
    settings.CREDIT_PRICE = Decimal(2)
    one, other = tokens_of_one_customer(30, 5)
    start = timezone.now().replace(year=2000)
    before = sales.sales(start), sales.ledger_sums(start), sales.outstanding(timezone.now())
    sold = sales.sales(start, [one.pk]), sales.sales(start, [other.pk])
    transfer(one, other)
    after = sales.sales(start), sales.ledger_sums(start), sales.outstanding(timezone.now())
    assert after == (before[0], {**before[1], "transfer": 0}, before[2])
    assert (sales.sales(start, [one.pk]), sales.sales(start, [other.pk])) == sold


def test_transfer_does_not_use_the_allowance(tills: Tills, settings: Any) -> None:
    settings.SUPPORT_CREDITS_PER_DAY = 10
    user = User.objects.create_user("op")
    transfer(*tills)
    credits.require_allowance(user=user, amount=10)
    credits.top_up(token=tills[0], amount=1, actor="op", reason="paid")
    with pytest.raises(credits.AllowanceExceeded):
        credits.require_allowance(user=user, amount=10)


# --- Locks -----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite locks the database, not rows")
def test_rows_are_locked_in_ascending_order(tills: Tills) -> None:
    for source, target in (tills, tills[::-1]):
        with CaptureQueriesContext(connection) as captured:
            transfer(source, target, 1)
        locks = [query["sql"] for query in captured if "FOR NO KEY UPDATE" in query["sql"]]
        assert len(locks) == 1
        assert locks[0].endswith('ORDER BY "accounts_apitoken"."id" ASC FOR NO KEY UPDATE')
