"""The list of tokens and its filters."""

from datetime import datetime
from typing import Any

from django.contrib import admin, messages
from django.db import OperationalError
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from accounts import statistics, tokens
from accounts.admin import base
from accounts.models import ApiToken
from core.admin import MAX_LISTED

SOON_DAYS = 7
OUT_OF_CREDITS = "out of credits"
TEST = "test"
#: The state that the console shows → unfold's type of its label.
STATE_LABELS = {
    "active": "success",
    "in grace": "info",
    OUT_OF_CREDITS: "warning",
    "expired": "warning",
    "revoked": "danger",
}


def shown_state(token: ApiToken) -> str:
    """The token's state; `out of credits` for one that is usable but cannot pay for a search."""
    state = token.state
    usable = state in ("active", "in grace")
    return OUT_OF_CREDITS if usable and token.credits == 0 and not token.is_test else state


def state_label(token: ApiToken) -> dict[str, str]:
    """The state and its colour, for unfold/helpers/label.html."""
    state = shown_state(token)
    return {"text": state, "type": STATE_LABELS[state]}


def runs_out(token: Any, now: datetime) -> str:
    """When the token runs out. `token` must come from statistics.with_activity."""
    if token.is_test or not token.is_usable_at(now):
        return "-"
    return end_of_credits(statistics.runs_out(token, token.charged, now), now)


def end_of_credits(at: datetime | None, now: datetime) -> str:
    if at is None:
        return "No end date at current usage"
    return f"{at:%Y-%m-%d}" if at > now else OUT_OF_CREDITS


class StateFilter(admin.SimpleListFilter):
    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin) -> list[tuple[str, str]]:
        return [(state, state) for state in ("active", "in grace", "revoked", "expired")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> QuerySet[ApiToken]:
        now = timezone.now()
        usable = Q(revoked_at=None, expires_at__gt=now)
        conditions = {
            "active": usable & (Q(previous_until=None) | Q(previous_until__lte=now)),
            "in grace": usable & Q(previous_until__gt=now),
            "revoked": ~Q(revoked_at=None),
            "expired": Q(revoked_at=None, expires_at__lte=now),
        }
        return queryset.filter(conditions.get(self.value() or "", Q()))


class RunsOutFilter(admin.SimpleListFilter):
    title = "credits"
    parameter_name = "runs_out"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin) -> list[tuple[str, str]]:
        return [("soon", f"running out within {SOON_DAYS} days"), ("none", OUT_OF_CREDITS)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> QuerySet[ApiToken]:
        if self.value() == "none":
            return queryset.filter(credits=0, is_test=False)
        if self.value() != "soon":
            return queryset
        try:
            soon = statistics.running_out(timezone.now(), within_days=SOON_DAYS)
        except OperationalError:  # it takes longer the more tokens are in use
            messages.warning(request, "Query timed out: too many active tokens.")
            return queryset.none()
        return queryset.filter(pk__in=[one.token.pk for one in soon[:MAX_LISTED]])


class ModeFilter(admin.SimpleListFilter):
    title = "mode"
    parameter_name = "mode"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin) -> list[tuple[str, str]]:
        return [("live", "live"), (TEST, TEST)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> QuerySet[ApiToken]:
        is_test = {"live": False, TEST: True}.get(self.value() or "")
        return queryset if is_test is None else queryset.filter(is_test=is_test)


class TokenList(base.NewestRowsList):
    limit = "tokens; #id and the last 4 characters find any token"

    def identified(self) -> Q:
        return super().identified() | Q(pk__in=[token.pk for token in tokens.find(self.query)])

    def with_figures(self) -> QuerySet[ApiToken]:
        return statistics.with_activity(ApiToken.objects.select_related("customer"), timezone.now())
