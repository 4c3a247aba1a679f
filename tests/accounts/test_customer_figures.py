"""The figures of customers, next to those of each of their tokens."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts import customer_figures, customers, request_statistics
from accounts.models import ApiToken, TokenDay
from tests.accounts.admin.pages import token_of

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("customer_ids", [True, False])
@pytest.mark.parametrize(
    "tokens",
    [
        [(90, 100, 10), (90, 100, 20), (40, 50, 1)],
        [(90, 100, 60), (1, 100, 20), (0, 100, 20)],
        [(90, 100, 1), (3, 100, 20), (5, 100, 90), (6, 5, 0), (7, 30, 3)],
        [(90, 100, 0), (90, 7, 0)],
        [(90, 0, 0), (1, 5, 5)],
    ],
)
def test_customer_runs_out_with_the_first_of_its_tokens(tokens: list[tuple[int, int, int]], customer_ids: bool) -> None:
    """`tokens`: age in days, credits, and charged searches of today."""
    now, ends = timezone.now(), []
    customer, other = customers.create(name="Example Ltd"), customers.create(name="Other Ltd")
    for age_days, credits, charged in tokens:
        token = token_of(customer, "till", credits)
        token.created_at = now - timedelta(days=age_days)
        token.save(update_fields=["created_at"])
        TokenDay.objects.create(token=token, day=now.date(), outcome="found_one", count=charged)
        ends.append(request_statistics.runs_out(token, charged, now))
    for state in ({"revoked_at": now}, {"expires_at": now}, {"is_test": True}):
        ApiToken.objects.filter(pk=token_of(customer, "gone", 0).pk).update(**state)
    expected: Any = min(filter(None, ends), default=None)
    figures = customer_figures.by_customer(now, [customer.pk] if customer_ids else None, ["runs_out"])
    assert figures[customer.pk].runs_out == expected
    assert figures[customer.pk].usable == len(tokens)
    assert figures[other.pk].runs_out is None
