"""How many credits the operator who sends a request may give."""

from typing import cast

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest

from accounts import credits
from accounts.models import CreditEntry


def limited_user(request: HttpRequest) -> User | None:
    """The operator, if their credits are limited."""
    return None if request.user.has_perm("accounts.give_any_credits") else cast(User, request.user)


def require_allowance(request: HttpRequest, amount: int, repeated: QuerySet[CreditEntry] | None = None) -> None:
    """credits.require_allowance, for an operator whose credits are limited."""
    if amount > 0 and (user := limited_user(request)):
        credits.require_allowance(user=user, amount=amount, repeated=repeated)


def allowance(request: HttpRequest) -> str:
    """How many credits an operator may give whose credits are limited; empty for others."""
    if not (user := limited_user(request)):
        return ""
    left, limit = credits.allowance_left(user), settings.SUPPORT_CREDITS_PER_DAY
    return f"You can give {left:,} more credits now: your limit is {limit:,} in 24 hours."
