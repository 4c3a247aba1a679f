"""The figures of customers, next to those of each of their tokens."""

from datetime import timedelta

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
        [(90, 100, 10, 99), (90, 100, 20, 99), (40, 50, 1, 99)],
        [(90, 100, 60, 99), (1, 100, 20, 99), (0, 100, 20, 99)],
        [(90, 100, 1, 99), (3, 100, 20, 99), (5, 100, 90, 99), (6, 5, 0, 99), (7, 30, 3, 99)],
        [(90, 100, 0, 99), (90, 7, 0, 50)],
        [(90, 100, 20, 5), (90, 100, 10, 40), (1, 100, 1, 6)],
        [(90, 100, 20, 99), (90, 100, 1, 9), (1, 100, 20, 99)],
        [(90, 0, 0, 3), (1, 5, 5, 99)],
    ],
)
def test_customer_runs_out_with_the_first_of_its_tokens(
    tokens: list[tuple[int, int, int, int]], customer_ids: bool
) -> None:
    """`tokens`: age in days, credits, charged searches of today, and days until it expires."""
    now, ends = timezone.now(), []
    customer, other = customers.create(name="Example Ltd"), customers.create(name="Other Ltd")
    for age_days, credits, charged, left_days in tokens:
        token = token_of(customer, "till", credits)
        token.created_at, token.expires_at = now - timedelta(days=age_days), now + timedelta(days=left_days)
        token.save(update_fields=["created_at", "expires_at"])
        TokenDay.objects.create(token=token, day=now.date(), outcome="found_one", count=charged)
        ends.append(request_statistics.runs_out(token, charged, now))
    soon = now + timedelta(days=1)
    for state in ({"revoked_at": now, "expires_at": soon}, {"expires_at": now}, {"is_test": True, "expires_at": soon}):
        ApiToken.objects.filter(pk=token_of(customer, "gone", 0).pk).update(**state)
    figures = customer_figures.by_customer(now, [customer.pk] if customer_ids else None, ["runs_out"])
    assert figures[customer.pk].runs_out == (first if (first := min(ends)).at > now else customer_figures.EMPTY)
    assert figures[customer.pk].usable == len(tokens)
    assert figures[other.pk].runs_out is None
