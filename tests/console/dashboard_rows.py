"""Rows for the dashboard's figures, and what its chart shows."""

import html
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import OperationalError, connection

from accounts import tokens
from accounts.models import ApiToken, CreditEntry, SearchHour, TokenDay
from monitoring.models import SourceHour, SourceResult

URL = "/admin/"
NOW = datetime(2026, 3, 9, 14, 20, 30, tzinfo=UTC)
HOUR = NOW.replace(minute=0, second=0)


@contextmanager
def timing_out(table: str) -> Iterator[None]:
    """Statements that read this table time out."""

    def too_slow(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if table in sql:
            raise OperationalError("canceling statement due to statement timeout")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(too_slow):
        yield


def count_requests(outcome: str, count: int, *, hours_ago: int = 0) -> None:
    SearchHour.objects.create(hour=HOUR - timedelta(hours=hours_ago), outcome=outcome, count=count)


def add_credits(kind: str, amount: int, *, days_ago: int = 0, price: Decimal | None = None) -> None:
    """A ledger entry at noon, of a token that has expired."""
    known = {"lifetime_days": 1, "expires_at": NOW}
    token, _ = ApiToken.objects.get_or_create(jti="ledger", defaults=known)
    at = NOW.replace(hour=12) - timedelta(days=days_ago)
    CreditEntry.objects.create(token=token, amount=amount, balance_after=0, kind=kind, created_at=at, price=price)


def count_calls(outcome: str, count: int, *, hours_ago: int = 0, **given: Any) -> None:
    row = {"slot": "source_a", "connector": "tests.connectors.RemoteKnows", "outcome": outcome, **given}
    SourceHour.objects.create(hour=HOUR - timedelta(hours=hours_ago), count=count, **row)


def issue_long_ago(name: str, balance: int, charged: int = 0) -> ApiToken:
    """A token issued 90 days ago. `charged`: credits charged today."""
    token = tokens.issue(name=name, initial_credits=balance, actor="test").token
    ApiToken.objects.filter(pk=token.pk).update(created_at=NOW - timedelta(days=90))
    if charged:
        TokenDay.objects.create(token=token, day=NOW.date(), outcome="found_one", count=charged)
    return token


def chart(text: str) -> dict[str, Any]:
    value = re.search(r'data-value="(.*?)"', text)
    assert value
    return dict(json.loads(html.unescape(value[1])))


def configure(settings: Any, source_a: str, source_b: str = "Knows") -> None:
    for name, bound in (("SOURCE_A", source_a), ("SOURCE_B", source_b)):
        setattr(settings, name, ",".join(f"tests.connectors.{word}" for word in bound.split(",")))


def add_result(
    reason: str = "", *, seconds_ago: float = 0, hint: str = "", connector: str = "tests.connectors.Knows"
) -> None:
    last_ms = round((NOW - timedelta(seconds=seconds_ago)).timestamp() * 1000)
    SourceResult.objects.create(connector=connector, reason=reason, hint=hint, last_ms=last_ms)
