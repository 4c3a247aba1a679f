"""Request outcomes are counted by hour and by token and day, and reported to the console."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db.models.signals import post_init

from accounts import request_statistics, tokens
from accounts.models import ApiToken, SearchHour, TokenDay
from core import retention
from core.write_buffer import WriteBuffer

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)
TODAY = NOON.date()


def issued(balance: int, *, age_days: float = 60, name: str = "pbx") -> ApiToken:
    """A token issued `age_days` before NOON, valid until long after it."""
    token = tokens.issue(name=name, initial_credits=balance, actor="test").token
    ApiToken.objects.filter(pk=token.pk).update(
        created_at=NOON - timedelta(days=age_days), expires_at=NOON + timedelta(days=300)
    )
    token.refresh_from_db()
    return token


def spent(token: ApiToken, count: int, *, days_ago: int = 0, outcome: str = "found_one") -> None:
    TokenDay.objects.create(token=token, day=TODAY - timedelta(days=days_ago), outcome=outcome, count=count)


def running_out(within_days: int = 7) -> list[tuple[int, datetime]]:
    return [(one.token.pk, one.end.at) for one in request_statistics.running_out(NOON, within_days=within_days)]


# --- Counting ----------------------------------------------------------------------------------------------------


def test_request_is_counted_by_hour_and_by_token_and_day(
    process_buffer: WriteBuffer, at: Callable[[datetime], None], token: ApiToken
) -> None:
    midnight = NOON.replace(hour=0)
    at(midnight - timedelta(seconds=1))
    request_statistics.count(token_id=token.pk, outcome="found_both")
    at(midnight)
    for outcome in ("found_both", "found_both", "no_credits"):
        request_statistics.count(token_id=token.pk, outcome=outcome)
    request_statistics.count(token_id=None, outcome="unauthorized")
    process_buffer.flush()
    assert request_statistics.by_step(midnight - timedelta(days=1)) == {
        midnight - timedelta(hours=1): {"found_both": 1},
        midnight: {"found_both": 2, "no_credits": 1, "unauthorized": 1},
    }
    assert request_statistics.by_step(midnight - timedelta(hours=4), step="day") == {
        midnight - timedelta(days=1): {"found_both": 1},
        midnight: {"found_both": 2, "no_credits": 1, "unauthorized": 1},
    }
    assert list(request_statistics.by_day([token.pk], NOON).values())[-3:] == [
        {},
        {"found_both": 1},
        {"found_both": 2, "no_credits": 1},
    ]


def test_by_step_starts_at_its_time_and_by_day_30_days_ago(token: ApiToken) -> None:
    for hours in (0, 1):
        SearchHour.objects.create(hour=NOON - timedelta(hours=hours), outcome="failed", count=1)
    spent(token, 1, days_ago=29)
    spent(token, 1, days_ago=30)
    spent(issued(5), 3)
    assert list(request_statistics.by_step(NOON)) == [NOON]
    by_day = request_statistics.by_day([token.pk], NOON)
    assert list(by_day) == [TODAY - timedelta(days=back) for back in reversed(range(30))]
    assert list(filter(None, by_day.values())) == [{"found_one": 1}]


def test_every_outcome_has_a_name_and_fits_its_column() -> None:
    for model in (SearchHour, TokenDay):
        longest: Any = model._meta.get_field("outcome")
        assert all(len(outcome) <= longest.max_length for outcome in request_statistics.OUTCOMES)
    assert set(request_statistics.SEARCHES) < set(request_statistics.OUTCOMES)


def test_prune_deletes_rows_older_than_400_days(token: ApiToken, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "timezone", SimpleNamespace(now=lambda: NOON))
    monkeypatch.setattr(request_statistics, "PRUNE_ROWS", 1)
    for days in (399, 400, 401, 402):
        SearchHour.objects.create(hour=NOON - timedelta(days=days), outcome="failed", count=1)
        spent(token, 1, days_ago=days)
    assert request_statistics.prune() == 4
    assert {(NOON - row.hour).days for row in SearchHour.objects.all()} == {399, 400}
    assert {(TODAY - row.day).days for row in TokenDay.objects.all()} == {399, 400}


# --- A token's rate ----------------------------------------------------------------------------------------------


def test_with_activity_counts_each_token_separately() -> None:
    one, other = issued(5), issued(5)
    spent(one, 10)
    spent(one, 20, days_ago=6)
    spent(one, 40, days_ago=7)
    spent(one, 80, days_ago=29)
    spent(one, 160, days_ago=30)
    spent(one, 320, outcome="replayed")
    spent(one, 640, outcome="no_credits")
    rows: Any = request_statistics.with_activity(ApiToken.objects.order_by("pk"), NOON)
    assert [(row.pk, row.searches_30d, row.charged) for row in rows] == [
        (one.pk, 10 + 20 + 40 + 80 + 320, 10 + 20),
        (other.pk, 0, 0),
    ]


@pytest.mark.parametrize(("age_days", "rate"), [(0, 30), (0.01, 30), (1, 30), (2, 15), (60, 30 / 6.5)])
def test_rate_of_a_new_token_is_over_its_age(age_days: float, rate: float) -> None:
    assert request_statistics.rate_a_day(issued(0, age_days=age_days), 30, NOON) == pytest.approx(rate)


def test_runs_out_is_the_earlier_of_credits_and_expiry() -> None:
    token = issued(20)
    token.expires_at = expiry = NOON + timedelta(days=3)

    def end(charged: int) -> tuple[datetime, str]:
        return request_statistics.runs_out(token, charged, NOON)

    assert end(65) == (NOON + timedelta(days=2), "credits")
    assert end(26) == (expiry, "expires")  # credits for 5 days
    assert end(0) == (expiry, "expires")
    token.credits = 10**15
    assert end(1) == (expiry, "expires")
    token.credits = 0
    assert end(0) == (NOON, "credits")
    token.is_test = True
    assert end(0) == (expiry, "expires")


# --- Who runs out ------------------------------------------------------------------------------------------------


def test_running_out_is_sorted_by_time() -> None:
    later, sooner, out = issued(60), issued(10), issued(0)
    for token in (later, sooner, out):
        spent(token, 65)
    assert running_out() == [
        (out.pk, NOON),
        (sooner.pk, NOON + timedelta(days=1)),
        (later.pk, NOON + timedelta(days=6)),
    ]
    assert [one.rate_a_day for one in request_statistics.running_out(NOON, within_days=7)] == [10, 10, 10]


def test_running_out_excludes_tokens_without_recent_charges() -> None:
    idle, empty = issued(1), issued(0)
    spent(idle, 100, days_ago=7)
    for outcome in ("replayed", "given_away", "no_credits", "rate_limited", "failed"):
        spent(idle, 100, outcome=outcome)
        spent(empty, 100, outcome=outcome)
    assert running_out() == []


def test_running_out_excludes_unusable_tokens() -> None:
    revoked, expired = issued(1), issued(1)
    for token in (revoked, expired):
        spent(token, 65)
    tokens.revoke(token=revoked, reason="test")
    ApiToken.objects.filter(pk=expired.pk).update(expires_at=NOON)
    assert running_out() == []


def ending(limit: int = 100) -> tuple[list[tuple[int, int, str]], int]:
    found, count = request_statistics.ending(NOON, within_days=7, limit=limit)
    return [(one.token.pk, (one.end.at - NOON).days, one.end.cause) for one in found], count


def test_token_that_expires_first_does_not_run_out_of_credits() -> None:
    both, later, unused, test, empty = issued(10), issued(60), issued(5), issued(0), issued(0)
    for token, days in ((both, 2), (later, 3), (unused, 5), (test, 6), (empty, 4)):
        is_test = token == test
        ApiToken.objects.filter(pk=token.pk).update(expires_at=NOON + timedelta(days=days), is_test=is_test)
    for token in (both, later):
        spent(token, 65)  # 10 a day
    assert running_out() == [(both.pk, NOON + timedelta(days=1))]
    expected = [(both.pk, 1, "credits"), (later.pk, 3, "expires"), (unused.pk, 5, "expires")]
    assert ending() == (expected, 3)
    tokens.rotate(token=unused, grace=timedelta(hours=1))
    assert ending() == (expected[:2], 2)


def test_first_tokens_that_end_are_those_of_all() -> None:
    for number in range(6):
        spent(token := issued(10 * number + 5), 65)  # 10 a day
        ApiToken.objects.filter(pk=token.pk).update(expires_at=NOON + timedelta(days=6.4 - 1.2 * number))
    found, count = ending()
    assert [cause for *_, cause in found] == ["expires", "credits", "credits", "expires", "credits", "expires"]
    for limit in range(count + 1):
        assert ending(limit) == (found[:limit], 6)


def test_tokens_that_end_are_not_all_loaded() -> None:
    for _ in range(9):
        ApiToken.objects.filter(pk=issued(5).pk).update(expires_at=NOON + timedelta(days=5))
    loaded: list[ApiToken] = []
    post_init.connect(remember := lambda instance, **_: loaded.append(instance), sender=ApiToken)
    try:
        assert ending(2)[1] == 9
    finally:
        post_init.disconnect(remember, sender=ApiToken)
    assert len(loaded) == 2


@pytest.mark.parametrize("age_days", [0, 0.5, 1, 6.4, 6.5, 6.6, 8, 60])
@pytest.mark.parametrize("within_days", [1, 30])
def test_running_out_statement_misses_no_token(age_days: float, within_days: int) -> None:
    """The statement selects candidates in whole numbers; Python then computes exactly."""
    expected = set()
    for balance in range(0, 80 * within_days, 7 * within_days):
        token = issued(balance, age_days=age_days)
        spent(token, 40)
        spent(token, 9, days_ago=1, outcome="found_none")
        end = request_statistics.runs_out(token, 49, NOON)
        if end.cause == "credits" and end.at <= NOON + timedelta(days=within_days):
            expected.add(token.pk)
    assert {pk for pk, _ in running_out(within_days)} == expected
    assert 0 < len(expected) < 12
