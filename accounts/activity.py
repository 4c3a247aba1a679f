"""How many requests came, of which token, and how they ended: for the console's figures.

Counted in memory and written by accounts.recorder; no search runs a statement for it.
"""

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import F, IntegerField, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce
from django.utils import timezone

from accounts.models import ApiToken, CreditDay, CreditEntry, SearchHour, TokenDay
from accounts.periods import midnight
from accounts.pruning import KEPT_DAYS, delete_in_chunks
from accounts.recorder import Recorder, Table, from_hour, hour, never_raises, recorder

#: How a request may end, and what the console calls it. Each request has one. Degraded: answered, while one source
#: failed. `given_away`, `free_degraded`: without a match, and not charged (CHARGE_EMPTY).
OUTCOMES = {
    "found_both": "both sources matched",
    "found_one": "one source matched",
    "found_none": "no match",
    "given_away": "no match, not charged",
    "found_degraded": "degraded: one matched",
    "none_degraded": "degraded: no match",
    "free_degraded": "degraded: no match, not charged",
    "replayed": "replayed",
    "no_credits": "refused: no credits",
    "rate_limited": "refused: rate limited",
    "unauthorized": "refused: no valid token",
    "invalid": "refused: invalid request",
    "failed": "failed",
}
FOUND = ("found_both", "found_one", "found_degraded")
DEGRADED = ("found_degraded", "none_degraded", "free_degraded")
CHARGED = (*FOUND, "found_none", "none_degraded")
NEW_ANSWERS = (*CHARGED, "given_away", "free_degraded")
SEARCHES = (*NEW_ANSWERS, "replayed")
REFUSED = ("no_credits", "rate_limited", "unauthorized", "invalid")

#: A token's present rate is that of its last days.
RATE_DAYS = 7
PRUNE_ROWS = 5_000
_DAY_S = 24 * 3600


def _day_written(key: tuple[Any, ...]) -> tuple[Any, ...]:
    token_id, day, outcome = key
    begins = datetime.fromtimestamp(day * _DAY_S, UTC)
    return token_id, connection.ops.adapt_datefield_value(begins.date()), outcome


HOURS = Table(SearchHour, ("hour", "outcome"), ("count",), from_hour)
TOKEN_DAYS = Table(TokenDay, ("token_id", "day", "outcome"), ("count",), _day_written)


def answered(*, found: int, degraded: bool, charge_empty: bool) -> str:
    """The outcome of a new answer. `found`: how many sources matched. `degraded`: one source failed."""
    if found:
        return "found_degraded" if degraded else "found_both" if found == 2 else "found_one"
    if charge_empty:
        return "none_degraded" if degraded else "found_none"
    return "free_degraded" if degraded else "given_away"


@never_raises
def count(*, token_id: int | None, outcome: str, to: Recorder = recorder) -> None:
    """Count one request that ended as `outcome` (OUTCOMES). `token_id`: None when no valid token came."""
    now = time.time()
    to.add(HOURS, (hour(now), outcome), ((0, 1),))
    if token_id is not None:
        to.add(TOKEN_DAYS, (token_id, int(now) // _DAY_S, outcome), ((0, 1),))


def prune() -> int:
    """Delete what is older than KEPT_DAYS; how many rows."""
    oldest = timezone.now() - timedelta(days=KEPT_DAYS)
    return delete_in_chunks(SearchHour.objects.filter(hour__lt=oldest), PRUNE_ROWS) + delete_in_chunks(
        TokenDay.objects.filter(day__lt=oldest.date()), PRUNE_ROWS
    )


# --- Reading -----------------------------------------------------------------------------------------------------


def by_hour(since: datetime) -> dict[datetime, dict[str, int]]:
    """For each hour from `since` on in which a request came: how many ended how. One statement."""
    hours: dict[datetime, dict[str, int]] = defaultdict(dict)
    for begins, outcome, how_many in SearchHour.objects.filter(hour__gte=since).values_list("hour", "outcome", "count"):
        hours[begins][outcome] = how_many
    return dict(hours)


def by_day(token: ApiToken, since: date) -> dict[date, dict[str, int]]:
    """As `by_hour`, of one token's days."""
    days: dict[date, dict[str, int]] = defaultdict(dict)
    for day, outcome, how_many in token.days.filter(day__gte=since).values_list("day", "outcome", "count"):
        days[day][outcome] = how_many
    return dict(days)


def with_activity(tokens: QuerySet[ApiToken], now: datetime) -> QuerySet[ApiToken]:
    """`searches_30d`: answered searches of the last 30 days, and `charged`, what `runs_out` needs, on each token."""
    return tokens.annotate(
        searches_30d=_sum(SEARCHES, now.date() - timedelta(days=29)),
        charged=_sum(CHARGED, _rate_since(now)),
    )


def _sum(outcomes: Iterable[str], since: date) -> Any:
    days = TokenDay.objects.filter(token=OuterRef("pk"), day__gte=since, outcome__in=outcomes).order_by()
    total = days.values("token").annotate(total=Sum("count")).values("total")
    return Coalesce(Subquery(total, output_field=IntegerField()), 0)


def _rate_since(now: datetime) -> date:
    return now.date() - timedelta(days=RATE_DAYS - 1)


def rate_a_day(token: ApiToken, charged: int, now: datetime) -> float:
    """Credits: `charged` since the first of the last RATE_DAYS days or since the token was issued, at least one day."""
    began = max(datetime.combine(_rate_since(now), datetime.min.time(), UTC), token.created_at)
    return charged / max(1.0, (now - began) / timedelta(days=1))


def runs_out(token: ApiToken, charged: int, now: datetime) -> datetime | None:
    """When the balance is used up at the present rate, `charged` being as in `rate_a_day`. None: not within a hundred
    years, or it is not used at all."""
    if token.credits == 0:
        return now
    rate = rate_a_day(token, charged, now)
    left_days = token.credits / rate if rate else float("inf")
    return now + timedelta(days=left_days) if left_days < 36_500 else None


@dataclass(frozen=True, slots=True)
class RunningOut:
    token: ApiToken
    rate_a_day: float
    at: datetime


def running_out(now: datetime, *, within_days: int) -> list[RunningOut]:
    """Usable tokens that run out within so many days at their present rate, soonest first. One statement; tokens
    without a charged search in the last RATE_DAYS days are not in it."""
    since = _rate_since(now)
    # At least: `rate_a_day` divides by what has passed of the RATE_DAYS days, or of a younger token's life.
    in_time = Q(created_at__date__gte=since, credits__lte=F("charged") * within_days) | Q(
        created_at__date__lt=since, credits__lte=F("charged") * within_days / (RATE_DAYS - 1)
    )
    candidates = (
        ApiToken.objects.only("name", "credits", "created_at")
        .filter(revoked_at=None, expires_at__gt=now, days__day__gte=since, days__outcome__in=CHARGED)
        .annotate(charged=Sum("days__count"))
        .filter(in_time)
    )
    last = now + timedelta(days=within_days)
    found = [
        RunningOut(token, rate_a_day(token, token.charged, now), at)
        for token in candidates
        if (at := runs_out(token, token.charged, now)) and at <= last
    ]
    return sorted(found, key=lambda one: one.at)


def booked(since: datetime) -> dict[str, int]:
    """What operators booked from `since` on (UTC), summed up by kind (CreditEntry.Kind but searches). One statement.

    Of whole days the sums are kept. A period that begins within a day is read from the ledger: of the index of what
    operators book, which no search is in.
    """
    if since == midnight(since):
        days = CreditDay.objects.filter(day__gte=since.date())
        return dict(days.values_list("kind").annotate(Sum("amount")).order_by())
    entries = CreditEntry.objects.filter(created_at__gte=since).exclude(kind=CreditEntry.Kind.SEARCH)
    return dict(entries.values_list("kind").annotate(Sum("amount")).order_by())


def outstanding(now: datetime) -> tuple[int, int]:
    """The credits that lie on usable tokens, and those on tokens that were revoked or have expired. One statement."""
    usable = Q(revoked_at=None, expires_at__gt=now)
    sums = ApiToken.objects.aggregate(usable=Sum("credits", filter=usable), all=Sum("credits"))
    on_usable = sums["usable"] or 0
    return on_usable, (sums["all"] or 0) - on_usable
