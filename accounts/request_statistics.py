"""Request metrics: how many requests came, from which token and with which outcome.

`count` adds to counters in memory (core.write_buffer), which a thread writes to tables; the reports read the tables.
"""

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import BigIntegerField, F, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce, TruncDay

from accounts.models import ApiToken, SearchHour, TokenDay
from core import metrics, write_buffer
from core.periods import END, day_of, hour_of
from core.retention import PRUNE_ROWS, delete_in_batches, oldest_kept
from core.write_buffer import BufferedTable, Row

#: The outcomes of a request, and their names in the console. Degraded: answered although one slot failed.
#: `given_away`, `free_degraded`: no match, and not charged (CHARGE_EMPTY). `test`: any request with a test token.
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
    "test": "test token",
}
FOUND = ("found_both", "found_one", "found_degraded")
DEGRADED = ("found_degraded", "none_degraded", "free_degraded")
CHARGED = (*FOUND, "found_none", "none_degraded")
NEW_ANSWERS = (*CHARGED, "given_away", "free_degraded")
SEARCHES = (*NEW_ANSWERS, "replayed")
REFUSED = ("no_credits", "rate_limited", "unauthorized", "invalid")

REQUESTS = metrics.Counter(
    "callerid_searches", "Requests to the search, by outcome.", ("outcome",), zeros=[(outcome,) for outcome in OUTCOMES]
)

#: What the pages of tokens and customers show: the last days, today (UTC) included.
DAYS = 30
#: A token's current rate is that of its last days.
RATE_DAYS = 7

HOURS = BufferedTable(SearchHour, ("hour", "outcome"), ("count",))
TOKEN_DAYS = BufferedTable(TokenDay, ("token_id", "day", "outcome"), ("count",))
_ONE = ((0, 1),)


def answer_outcome(*, found: int, degraded: bool, charged: bool) -> str:
    """The outcome of a new answer. `found`: how many slots matched. `degraded`: one slot failed."""
    if found:
        return "found_degraded" if degraded else "found_both" if found == 2 else "found_one"
    if charged:
        return "none_degraded" if degraded else "found_none"
    return "free_degraded" if degraded else "given_away"


def count(*, token_id: int | None, outcome: str) -> None:
    """Count one request. `outcome`: one of OUTCOMES. `token_id`: None without a valid token."""
    now_s = time.time()
    REQUESTS.inc(outcome)
    rows: list[Row] = [(HOURS, (hour_of(now_s), outcome), _ONE)]
    if token_id is not None:
        rows.append((TOKEN_DAYS, (token_id, day_of(now_s), outcome), _ONE))
    write_buffer.process_buffer.add(*rows)


def prune() -> int:
    """Delete rows older than KEPT_DAYS; returns how many."""
    oldest = oldest_kept()
    hours, days = SearchHour.objects.filter(hour__lt=oldest), TokenDay.objects.filter(day__lt=oldest.date())
    return delete_in_batches(hours, PRUNE_ROWS) + delete_in_batches(days, PRUNE_ROWS)


# --- Reports -----------------------------------------------------------------------------------------------------


def by_step(since: datetime, until: datetime = END, *, step: str = "hour") -> dict[datetime, dict[str, int]]:
    """The start of each step → outcome → number of requests, for the hours from `since` on, and before `until`, that
    have any. `step`: `hour` or `day`. One statement."""
    hours = SearchHour.objects.filter(hour__gte=since, hour__lt=until)
    start = TruncDay("hour", tzinfo=UTC) if step == "day" else F("hour")
    rows = hours.annotate(start=start).values_list("start", "outcome")
    return _by_period(rows.annotate(total=Sum("count")).order_by())


def by_day(token_ids: Collection[int], now: datetime) -> dict[date, dict[str, int]]:
    """Like `by_step`, summed over these tokens, for each of the last DAYS days, oldest first."""
    first = now.date() - timedelta(days=DAYS - 1)
    rows = TokenDay.objects.filter(token__in=token_ids, day__gte=first).values_list("day", "outcome")
    counts = _by_period(rows.annotate(total=Sum("count")).order_by())
    return {day: counts.get(day, {}) for day in (first + timedelta(days=n) for n in range(DAYS))}


def _by_period(rows: Iterable[tuple[Any, str, int]]) -> dict[Any, dict[str, int]]:
    periods: dict[Any, dict[str, int]] = defaultdict(dict)
    for period, outcome, count in rows:
        periods[period][outcome] = count
    return dict(periods)


def with_activity(tokens: QuerySet[ApiToken], now: datetime) -> QuerySet[ApiToken]:
    """Annotates `searches_30d`, the answered searches (of a test token: the requests) of the last 30 days, and
    `charged`, which `runs_out` needs."""
    return tokens.annotate(
        searches_30d=_sum((*SEARCHES, "test"), now.date() - timedelta(days=DAYS - 1)),
        charged=_sum(CHARGED, _rate_since(now)),
    )


def activity_of(tokens: Sequence[ApiToken], now: datetime) -> list[Any]:
    """These tokens in this order, as `with_activity` annotates them. Cheaper than to annotate more than are shown."""
    ids = [token.pk for token in tokens]
    rows = with_activity(ApiToken.objects.all(), now).in_bulk(ids)
    return [rows[pk] for pk in ids if pk in rows]


def total(days: Mapping[date, Mapping[str, int]], outcomes: Collection[str]) -> int:
    """The requests of all these days with one of these outcomes."""
    return sum(counts.get(outcome, 0) for counts in days.values() for outcome in outcomes)


def with_charged(tokens: QuerySet[ApiToken], now: datetime) -> QuerySet[Any]:
    """Those of the tokens that were charged, with `charged`, as `runs_out` needs it. For many tokens."""
    charged = tokens.filter(days__day__gte=_rate_since(now), days__outcome__in=CHARGED)
    return charged.annotate(charged=Sum("days__count")).filter(charged__gt=0)


def _sum(outcomes: Iterable[str], since: date) -> Any:
    days = TokenDay.objects.filter(token=OuterRef("pk"), day__gte=since, outcome__in=outcomes).order_by()
    total = days.values("token").annotate(total=Sum("count")).values("total")
    return Coalesce(Subquery(total, output_field=BigIntegerField()), 0)


def _rate_since(now: datetime) -> date:
    return now.date() - timedelta(days=RATE_DAYS - 1)


def rate_since(now: datetime) -> datetime:
    """The start of the days to whose charges the rate of a token is the average, unless the token is younger."""
    return datetime.combine(_rate_since(now), datetime.min.time(), UTC)


def rate_a_day(token: ApiToken, charged: int, now: datetime) -> float:
    """Credits: `charged` since the first of the last RATE_DAYS days or since the token was issued, at least one day."""
    began = max(rate_since(now), token.created_at)
    return charged / max(1.0, (now - began) / timedelta(days=1))


class End(NamedTuple):
    """`cause`: `credits` or `expires`."""

    at: datetime
    cause: str


def runs_out(token: ApiToken, charged: int, now: datetime) -> End:
    """When a usable token can no longer search: its credits are used up at the current rate, or it expires. `charged`:
    as for `rate_a_day`."""
    expires = End(token.expires_at, "expires")
    if token.is_test:
        return expires
    if token.credits == 0:
        return End(now, "credits")
    left_days, rate = (expires.at - now) / timedelta(days=1), rate_a_day(token, charged, now)
    return End(now + timedelta(days=token.credits / rate), "credits") if rate * left_days > token.credits else expires


def ends(token_ids: Collection[int], now: datetime) -> dict[int, datetime]:
    """When each of these tokens can no longer search, as `runs_out`; in the past if it expired. Two statements."""
    known = ApiToken.objects.filter(pk__in=token_ids)
    charged = {token.pk: token.charged for token in with_charged(known, now)}
    return {token.pk: runs_out(token, charged.get(token.pk, 0), now).at for token in known}


def expiring(now: datetime, within_days: int) -> Q:
    """The usable tokens with credits that expire within so many days, without test tokens."""
    last = now + timedelta(days=within_days)
    return Q(revoked_at=None, expires_at__gt=now, expires_at__lte=last, is_test=False, credits__gt=0)


def out_of_credits(now: datetime) -> Q:
    """The usable tokens without credits."""
    return Q(revoked_at=None, expires_at__gt=now, is_test=False, credits=0)


def in_use(now: datetime) -> Q:
    """The tokens that were charged in the last RATE_DAYS days."""
    return Q(last_charged_at__gte=rate_since(now))


@dataclass(frozen=True, slots=True)
class RunningOut:
    token: ApiToken
    rate_a_day: float
    end: End


def ending(now: datetime, *, within_days: int, limit: int) -> tuple[list[RunningOut], int]:
    """The first `limit` usable tokens with credits that run out of them or expire within `within_days` days, soonest
    first, and how many there are. Three statements."""
    soon = {each.token.pk: each for each in running_out(now, within_days=within_days) if each.token.credits}
    tokens, last = ApiToken.objects.filter(expiring(now, within_days)), now + timedelta(days=within_days)
    count = len(soon) + tokens.count() - sum(each.token.expires_at <= last for each in soon.values())
    # Each of `soon` ends before it expires, so that the first `limit` of both are among the first `limit` of each.
    for token in tokens.only("name", "credits", "customer", "expires_at").order_by("expires_at")[:limit]:
        soon.setdefault(token.pk, RunningOut(token, 0.0, End(token.expires_at, "expires")))
    return sorted(soon.values(), key=lambda one: one.end)[:limit], count


def running_out(now: datetime, *, within_days: int) -> list[RunningOut]:
    """Usable tokens whose credits run out within `within_days` days at their current rate, before they expire, soonest
    first. Without tokens that have no charged search in the last RATE_DAYS days. One statement."""
    since = _rate_since(now)
    # A lower bound: `rate_a_day` divides by the elapsed part of the RATE_DAYS days, or of a younger token's life.
    in_time = Q(created_at__date__gte=since, credits__lte=F("charged") * within_days) | Q(
        created_at__date__lt=since, credits__lte=F("charged") * within_days / (RATE_DAYS - 1)
    )
    loaded = ApiToken.objects.only("name", "credits", "created_at", "customer", "expires_at", "is_test")
    usable = loaded.filter(revoked_at=None, expires_at__gt=now)
    last = now + timedelta(days=within_days)
    found = [
        RunningOut(token, rate_a_day(token, token.charged, now), end)
        for token in with_charged(usable, now).filter(in_time)
        if (end := runs_out(token, token.charged, now)).cause == "credits" and end.at <= last
    ]
    return sorted(found, key=lambda one: one.end)
