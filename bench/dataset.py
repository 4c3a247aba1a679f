"""The data that searches find: tokens, contacts, complaints."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

LIFETIME = timedelta(days=365)
TOKENS = 1_000
CREDITS = 10**9
NUMBERS = 10_000


def number(index: int) -> int:
    """Returns the phone number with that index: distinct, spread over the North American plan, eleven digits."""
    return 12_000_000_000 + index * 7_654_321 % 7_999_999_993


def jti(token: int) -> str:
    """Returns the `jti` of the token with that id."""
    return f"{token:032x}"


def fill() -> list[str]:
    """Creates tokens with ids from 1 and their first ledger entries, a contact for each number, and complaints for
    every other number. Returns the tokens' JWTs in the order of their ids. Runs within Django (`manage.py shell`), on
    an empty database."""
    from django.utils import timezone

    from accounts.models import ApiToken, CreditEntry
    from phonebook.models import ComplaintDay, Contact

    now, lifetime = timezone.now(), LIFETIME
    ids = range(1, TOKENS + 1)
    ApiToken.objects.bulk_create(
        ApiToken(
            id=i, name=f"Bench {i}", jti=jti(i), credits=CREDITS, lifetime_days=lifetime.days, expires_at=now + lifetime
        )
        for i in ids
    )
    CreditEntry.objects.bulk_create(
        CreditEntry(token_id=i, amount=CREDITS, balance_after=CREDITS, kind=CreditEntry.Kind.ISSUE, actor="bench")
        for i in ids
    )
    Contact.objects.bulk_create(
        [Contact(number=number(i), **_contact(i)) for i in range(NUMBERS)],
        batch_size=1_000,
    )
    ComplaintDay.objects.bulk_create(
        [
            ComplaintDay(number=number(i), source="bench", day=now.date() - timedelta(days=day), total=total)
            for i in range(NUMBERS)
            for day, total in enumerate(_complaints(i))
        ],
        batch_size=1_000,
    )
    return sign(ids)


def sign(ids: Iterable[int]) -> list[str]:
    """Returns the JWTs of the tokens with these ids. Runs within Django."""
    from accounts.tokens import _sign

    return [_sign(jti(i), LIFETIME) for i in ids]


def _contact(index: int) -> dict[str, str]:
    return {"name": f"Example Bakery {index}", "location": "Springfield, IL"}


def _complaints(index: int) -> list[int]:
    """Returns the complaints of each day, today first."""
    return [] if index % 2 else [1 + index // 2 % 2] * (1 + index // 4 % 3)


def answer(index: int) -> dict[str, Any]:
    """Returns the expected answer to a search for that number, without `credits_remaining`."""
    spam = sum(_complaints(index)) >= 2
    return {
        "success": True,
        "data": {
            "phone_number": str(number(index)),
            "source_a": _contact(index),
            "source_b": {"spam": True} if spam else {},
            "combined": {"source_a_available": True, "source_b_available": spam},
        },
    }
