"""The only code that changes a balance, for a search through accounts.debit: one guarded UPDATE and one ledger entry,
in one transaction."""

from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import NamedTuple
from uuid import uuid4

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet, Sum
from django.utils import timezone

from accounts.models import ApiToken, CreditEntry
from core import metrics, periods
from core.field_errors import FieldError

MAX_AMOUNT = 10**9
MAX_BALANCE = 10**15
MAX_PRICE = 10**9
_OUT_OF_RANGE = f"The balance must stay between 0 and {MAX_BALANCE}."
_PRICE_STEP = Decimal("0.0001")
#: An entry that equals one of this time may be the same one, entered again.
REPEAT_WINDOW = timedelta(minutes=10)

CREDITS = metrics.Counter(
    "callerid_credits",
    "Credits by which this service changed balances, by kind of ledger entry; commands are not counted.",
    ("kind",),
    zeros=[("search",), ("issue",), ("top-up",), ("refund",), ("transfer",), ("adjustment-up",), ("adjustment-down",)],
)


class ChangeRefused(FieldError):
    """An amount out of range, a top-up of a revoked token, a transfer to a token that may not get it, any change of a
    test token, or ReferenceUsed; the message says which."""


class ReferenceUsed(ChangeRefused):
    """The token has an entry with this reference and another amount, kind or price."""


class PossiblyRepeated(FieldError):
    """An equal entry was made within REPEAT_WINDOW; the message says when and by whom."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "may_repeat")


class NotRefundable(ValueError):
    """Only a search can be refunded, and only once; the message says which rule applied."""


class AllowanceExceeded(FieldError):
    """More than SUPPORT_CREDITS_PER_DAY; the message says how many are left."""


class Transfer(NamedTuple):
    """The two entries of a transfer, and whether they are new."""

    taken: CreditEntry
    given: CreditEntry
    is_new: bool

    def messages(self) -> tuple[str, str]:
        """For the History of the token that had the credits, and of the one that has them."""
        what = credits_text(self.given.amount)
        entries = f"ledger entries {self.taken.pk} and {self.given.pk}. Reason: {self.taken.reason}"
        source, target = self.given.other_token, self.taken.other_token
        return f"Moved {what} to {target}, {entries}", f"Received {what} from {source}, {entries}"


def credits_text(amount: int) -> str:
    """`1 credit`, `1,000 credits`."""
    return f"{amount:,} credit{'' if amount == 1 else 's'}"


def change_balance(
    *,
    token: ApiToken,
    amount: int,
    kind: CreditEntry.Kind,
    actor: str,
    reason: str,
    reference: str = "",
    refunds: CreditEntry | None = None,
    other_token: ApiToken | None = None,
    price: Decimal | None = None,
) -> CreditEntry:
    """Add `amount` (or subtract) and write the ledger entry. `price`: what the customer pays for it in total; None if
    unknown.

    Raises ChangeRefused when the balance would leave its range, for a top-up of a revoked token, even one revoked at
    the same moment, and for a test token unless `amount` is 0. Locks the token's row: use one transaction per token, so
    that searches do not wait; `lock` those of a transfer first.
    """
    if kind != CreditEntry.Kind.TRANSFER:  # which takes no more than a balance
        _check_amount(amount)
    with transaction.atomic():
        tokens = ApiToken.objects.filter(pk=token.pk)
        if kind == CreditEntry.Kind.TOP_UP:
            tokens = tokens.filter(revoked_at=None)
        if amount:
            tokens = tokens.filter(is_test=False)
        in_range = tokens.filter(credits__gte=-amount, credits__lte=MAX_BALANCE - amount)
        if not in_range.update(credits=F("credits") + amount):
            check_not_test(amount, is_test=ApiToken.objects.filter(pk=token.pk, is_test=True).exists())
            if not tokens.exists():
                raise ChangeRefused("This token is revoked, so nobody could spend the credits. Issue a new token.")
            raise ChangeRefused(_OUT_OF_RANGE, "amount")
        entry = CreditEntry.objects.create(
            token_id=token.pk,
            amount=amount,
            balance_after=tokens.values_list("credits", flat=True).get(),
            kind=kind,
            actor=actor[:150],
            reason=reason,
            reference=reference,
            refunds=refunds,
            other_token=other_token,
            price=price,
        )
        label = f"adjustment-{'up' if amount > 0 else 'down'}" if kind == CreditEntry.Kind.ADJUSTMENT else kind.value
        counted = 0 if kind == CreditEntry.Kind.TRANSFER and amount < 0 else abs(amount)  # its counterpart counts
        transaction.on_commit(lambda: CREDITS.inc(label, by=counted))
        return entry


def require_unrepeated(equal: QuerySet[CreditEntry], done: str, *, reason: str = "") -> None:
    """Raises PossiblyRepeated if one of the `equal` entries was made within REPEAT_WINDOW. `done`: what it has done.
    `reason`: only one with this reason, in any case and with any spaces, counts.

    Call it while the token's row is locked: then it sees an entry that another transaction writes at this moment.
    """
    now = timezone.now()
    booked = equal.exclude(kind=CreditEntry.Kind.SEARCH)  # by this condition they have an index
    recent = booked.filter(created_at__gt=now - REPEAT_WINDOW).order_by("-created_at")
    words = reason.casefold().split()
    entry = next((each for each in recent if not words or each.reason.casefold().split() == words), None)
    if entry is not None:
        minutes = (now - entry.created_at) // timedelta(minutes=1)
        ago = periods.duration(60 * minutes) if minutes > 0 else "less than a minute"
        raise PossiblyRepeated(f"{done} {ago} ago by {entry.actor}.")


def _with_this_reason(amount: int, verb: str) -> str:
    return f"{credits_text(abs(amount))} with this reason {'was' if abs(amount) == 1 else 'were'} {verb}"


# --- Rules that change nothing, which the console's forms call too --------------------------------------------------


def _check_amount(amount: int) -> None:
    if abs(amount) > MAX_AMOUNT:
        raise ChangeRefused(f"Enter at most {MAX_AMOUNT:,} credits.", "amount")


def check_change(amount: int, kind: CreditEntry.Kind) -> None:
    """Of a top-up or an adjustment."""
    is_top_up = kind == CreditEntry.Kind.TOP_UP
    if amount < 1 and (is_top_up or amount == 0):
        text = "A top-up is 1 credit or more." if is_top_up else "An adjustment of 0 changes nothing."
        raise ChangeRefused(text, "amount")


def check_not_test(amount: int, is_test: bool) -> None:
    if amount and is_test:
        raise ChangeRefused("A test token has no credits: its searches are never charged.")


def check_balance(amount: int, balance: int) -> None:
    if not 0 <= balance + amount <= MAX_BALANCE:
        raise ChangeRefused(_OUT_OF_RANGE, "amount")


def check_price(amount: int, price: Decimal | None) -> None:
    """At most 4 decimals, and the sign of `amount` or 0."""
    if price is None:
        return
    if not price.is_finite() or abs(price) >= MAX_PRICE:
        raise ChangeRefused(f"A price is a number below {MAX_PRICE:,}.", "price")
    if price * amount < 0 or (amount == 0 and price):
        text = "Enter a positive price for added credits, a negative one for removed credits, or 0."
        raise ChangeRefused(text, "price")
    if price != price.quantize(_PRICE_STEP):  # rounded to 0, the credits would count as free
        raise ChangeRefused("A price has at most 4 decimals.", "price")


def check_left(amount: int, source: ApiToken) -> None:
    """Of a transfer from `source`."""
    if not source.is_test and source.credits < amount:
        raise ChangeRefused(f"{source} has only {source.credits:,} credits.", "amount")


def check_allowance(amount: int, user: AbstractBaseUser, repeated: QuerySet[CreditEntry] | None = None) -> None:
    """As require_allowance, without the lock."""
    left = allowance_left(user)
    if amount > left and not (repeated is not None and repeated.exists()):
        limit = settings.SUPPORT_CREDITS_PER_DAY
        text = f"Only {left:,} of your {limit:,} credits in 24 hours are left"
        raise AllowanceExceeded(f"{text}: enter a smaller amount, or ask an operator.", "amount")


# --- Changes of a balance -------------------------------------------------------------------------------------------


def change_once(
    *,
    token: ApiToken,
    amount: int,
    kind: CreditEntry.Kind,
    actor: str,
    reason: str,
    reference: str = "",
    price: Decimal | None = None,
    may_repeat: bool = True,
) -> tuple[CreditEntry, bool]:
    """A top-up of 1 credit or more, or an adjustment, up or down, but not below 0: the entry, and whether it is new. A
    repeated `reference` adds nothing: the existing entry is returned.

    `price`: what the customer pays in total, by default `sale_price`; of an adjustment the correction of what was paid,
    by default none. Raises ChangeRefused, as ReferenceUsed for a reference of another amount, kind or price,
    PossiblyRepeated unless it `may_repeat` an entry of the same kind, amount and reason, and ValueError for an invalid
    reason or reference. Adjustments and refunds of a revoked token are allowed, because they
    correct its ledger.
    """
    check_change(amount, kind)
    reason, reference = _clean_reason(reason), _clean_reference(reference)
    given = price is not None
    if kind == CreditEntry.Kind.TOP_UP:
        price = sale_price(amount, price)
    check_price(amount, price)
    with transaction.atomic():
        # Locked, so that the second of two concurrent calls with one reference sees the first one's entry.
        ApiToken.objects.select_for_update().get(pk=token.pk)
        entry = CreditEntry.objects.filter(token_id=token.pk, reference=reference).first() if reference else None
        if entry is None:
            if not may_repeat:
                equal = CreditEntry.objects.filter(token_id=token.pk, kind=kind, amount=amount)
                done = _with_this_reason(amount, "added" if amount > 0 else "removed")
                require_unrepeated(equal, done, reason=reason)
            entry = change_balance(
                token=token, amount=amount, kind=kind, actor=actor, reason=reason, reference=reference, price=price
            )
            return entry, True
    if (entry.amount, entry.kind) != (amount, kind) or (given and entry.price != price):
        raise ReferenceUsed("This reference was used for another entry of this token.", "reference")
    return entry, False


top_up = partial(change_once, kind=CreditEntry.Kind.TOP_UP)
adjust = partial(change_once, kind=CreditEntry.Kind.ADJUSTMENT)


def sale_price(amount: int, price: Decimal | None) -> Decimal | None:
    """What `amount` credits cost the customer in total: `price`, or else the amount times CREDIT_PRICE, if that is set.
    Raises ChangeRefused for an invalid price, and for an amount beyond MAX_AMOUNT, whose price nobody has typed."""
    _check_amount(amount)
    if price is None and settings.CREDIT_PRICE is not None:
        price = (amount * settings.CREDIT_PRICE).quantize(_PRICE_STEP)
    check_price(amount, price)
    return price


def refund(*, entry: CreditEntry, actor: str, reason: str, may_repeat: bool = True) -> CreditEntry:
    """Return the credit of a search, once, by a new entry that refers to the search's.

    Raises NotRefundable, ChangeRefused, PossiblyRepeated unless it `may_repeat` the reason of another refund of this
    token, and ValueError for a reason that is empty or over 200 characters.
    """
    if entry.kind != CreditEntry.Kind.SEARCH:
        raise NotRefundable("Only a search is refunded: adjust the balance instead.")
    kind, reason = CreditEntry.Kind.REFUND, _clean_reason(reason)
    try:
        with transaction.atomic():
            lock(entry.token)
            if not may_repeat:
                others = CreditEntry.objects.filter(token_id=entry.token_id, kind=kind).exclude(refunds=entry)
                require_unrepeated(others, _with_this_reason(-entry.amount, "returned"), reason=reason)
            return change_balance(
                token=entry.token, amount=-entry.amount, kind=kind, actor=actor, reason=reason, refunds=entry
            )
    except IntegrityError as error:
        if not CreditEntry.objects.filter(refunds=entry).exists():
            raise
        raise NotRefundable("This search was refunded before.") from error


def lock(*tokens: ApiToken) -> list[ApiToken]:
    """The present rows of `tokens`, in their order, locked until the end of the transaction. Always in ascending order
    of their ids, so that two transactions with the same tokens do not wait for each other."""
    locked = ApiToken.objects.select_for_update(no_key=True).filter(pk__in=[token.pk for token in tokens])
    rows = {row.pk: row for row in locked.order_by("pk")}
    return [rows[token.pk] for token in tokens]


def transfer(
    *,
    from_token: ApiToken,
    to_token: ApiToken,
    amount: int,
    reason: str,
    actor: str,
    reference: str = "",
    may_repeat: bool = True,
) -> Transfer:
    """Move `amount` credits, 1 or more, to another token of the same customer: an entry of each token, which name the
    other token and share a reference. A repeated `reference` moves nothing: the existing entries are returned.

    `from_token` may be revoked, so that what it has left can be spent. Raises ChangeRefused when it has fewer credits,
    when `to_token` is revoked or the tokens have not the same customer, for test tokens, and for a reference of another
    entry; PossiblyRepeated unless it `may_repeat` a transfer of the same tokens, amount and reason; and ValueError for
    an invalid reason or reference.
    """
    if amount < 1:
        raise ChangeRefused("A transfer is 1 credit or more.", "amount")
    if from_token.pk == to_token.pk:
        raise ChangeRefused("Choose another token to move credits to.", "to_token")
    reason, reference = _clean_reason(reason), _clean_reference(reference) or uuid4().hex
    with transaction.atomic():
        source, target = lock(from_token, to_token)
        if earlier := _earlier_transfer(source, target, amount, reference):
            return earlier
        if source.customer_id is None or source.customer_id != target.customer_id:
            raise ChangeRefused("Credits are only moved between tokens of the same customer.", "to_token")
        if target.revoked_at is not None:
            text = f"{target} is revoked, so nobody could spend the credits. Choose another token."
            raise ChangeRefused(text, "to_token")
        if not may_repeat:
            given = CreditEntry.objects.filter(token=target, other_token=source, amount=amount)
            require_unrepeated(given, _with_this_reason(amount, f"moved to {target}"), reason=reason)
        check_left(amount, source)
        change = partial(
            change_balance, kind=CreditEntry.Kind.TRANSFER, actor=actor, reason=reason, reference=reference
        )
        taken = change(token=source, amount=-amount, other_token=target)
        return Transfer(taken, change(token=target, amount=amount, other_token=source), is_new=True)


def transfer_all(*, from_token: ApiToken, to_token: ApiToken, reason: str, actor: str) -> Transfer | None:
    """As `transfer`, for all credits that `from_token` has left. None if it has none."""
    with transaction.atomic():
        left = lock(from_token, to_token)[0].credits
        if not left:
            return None
        return transfer(from_token=from_token, to_token=to_token, amount=left, reason=reason, actor=actor)


def _earlier_transfer(source: ApiToken, target: ApiToken, amount: int, reference: str) -> Transfer | None:
    """The transfer with this reference. Raises ChangeRefused if either token has another entry with it."""
    found = CreditEntry.objects.filter(token__in=[source.pk, target.pk], reference=reference)
    by_token = {entry.token_id: entry for entry in found}
    if not by_token:
        return None
    taken, given = by_token.get(source.pk), by_token.get(target.pk)
    if taken is None or given is None or (taken.other_token_id, taken.amount) != (target.pk, -amount):
        raise ReferenceUsed("This reference was used for another entry of these tokens.")
    return Transfer(taken, given, is_new=False)


def require_allowance(*, user: AbstractBaseUser, amount: int, repeated: QuerySet[CreditEntry] | None = None) -> None:
    """Raises AllowanceExceeded if `user` would give tokens more than SUPPORT_CREDITS_PER_DAY within 24 hours, unless
    `repeated` has an entry: then nothing is given again. Top-ups, adjustments upwards and refunds count; transfers do
    not.

    Call it in the transaction that gives them, before any other lock. It locks the user, FOR NO KEY UPDATE, which does
    not conflict with references to the user: a page that holds a token's lock and writes the history, which refers to
    the user, would otherwise wait for this one, and this one for the token.
    """
    get_user_model()._default_manager.select_for_update(no_key=True).get(pk=user.pk)
    check_allowance(amount, user, repeated)


def allowance_left(user: AbstractBaseUser) -> int:
    """How many credits of SUPPORT_CREDITS_PER_DAY `user` may give now."""
    since = timezone.now() - timedelta(days=1)
    booked = CreditEntry.objects.exclude(kind=CreditEntry.Kind.SEARCH)  # by this condition they have an index
    given = booked.exclude(kind=CreditEntry.Kind.TRANSFER)
    entries = given.filter(created_at__gte=since, actor=user.get_username()[:150], amount__gt=0)
    given_amount: int = entries.aggregate(total=Sum("amount", default=0))["total"]
    return max(0, settings.SUPPORT_CREDITS_PER_DAY - given_amount)


def charge_rule() -> str:
    """When a search costs a credit, in a sentence."""
    empty = "even if nothing is found" if settings.CHARGE_EMPTY else "unless there is no match"
    impossible = settings.CHARGE_EMPTY and not settings.CHARGE_IMPOSSIBLE
    return f"An answered search costs one credit, {empty}{', unless the number cannot exist' * impossible}."


def _clean_reason(text: str) -> str:
    text = text.strip()
    if not 1 <= len(text) <= 200:
        raise FieldError("A reason of 1 to 200 characters is needed.", "reason")
    return text


def _clean_reference(text: str) -> str:
    """May be empty."""
    text = text.strip()
    if len(text) > 100:
        raise FieldError("A reference has at most 100 characters.", "reference")
    return text
