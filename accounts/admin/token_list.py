"""The list of tokens and its filters."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import cached_property

from accounts import request_statistics
from accounts.admin import search_text
from accounts.admin.base_classes import NewestRowsList
from accounts.credits import credits_text
from accounts.customer_figures import TIMEOUT_S
from accounts.models import ApiToken, Customer
from accounts.request_statistics import End
from core import db
from core.admin import MAX_LISTED, ConditionFilter

SOON_DAYS = 7
OUT_OF_CREDITS = "out of credits"
PREVIOUS_WORKS = "active, previous token works"
TEST = "test"
#: The state that the console shows → unfold's type of its label.
STATE_LABELS = {
    "active": "success",
    PREVIOUS_WORKS: "success",
    OUT_OF_CREDITS: "warning",
    "expired": "warning",
    "revoked": "danger",
}


def shown_state(token: ApiToken) -> str:
    """The token's state; `out of credits` for one that is usable but cannot pay for a search."""
    state = token.state
    usable = state in ("active", "in grace")
    if usable and token.credits == 0 and not token.is_test:
        return OUT_OF_CREDITS
    return PREVIOUS_WORKS if state == "in grace" else state


def details(token: ApiToken) -> tuple[str, ...]:
    """What tells the token from others of its name: its last characters, state and balance."""
    return token.hint, shown_state(token), "test token" if token.is_test else credits_text(token.credits)


def details_and_customer(token: ApiToken) -> tuple[str, ...]:
    return *details(token), *([str(token.customer)] if token.customer else [])


def state_label(token: ApiToken) -> dict[str, str]:
    """The state and its colour, for unfold/helpers/label.html."""
    state = shown_state(token)
    return {"text": state, "type": STATE_LABELS[state]}


def token_end(token: Any, now: datetime) -> End | None:
    """When a usable token runs out. `token` must come from request_statistics.with_activity."""
    return request_statistics.runs_out(token, token.charged, now) if token.is_usable_at(now) else None


def runs_out(token: Any, now: datetime) -> str:
    """As `token_end`."""
    return end_text(end, now) if (end := token_end(token, now)) else "-"


def runs_out_note(end: End | None, now: datetime) -> str:
    """What the date is based on; empty if nothing is estimated."""
    return "at the rate of the last 7 days" if end and end.cause == "credits" and end.at > now else ""


def end_text(end: End, now: datetime) -> str:
    """`2026-12-04 (expires)`."""
    return f"{end.at:%Y-%m-%d} ({end.cause})" if end.at > now else OUT_OF_CREDITS


def targets(token: ApiToken) -> QuerySet[ApiToken]:
    """The tokens that credits of `token` can be moved to (credits.transfer)."""
    if token.customer_id is None:
        return ApiToken.objects.none()
    owned = ApiToken.objects.filter(customer=token.customer_id, is_test=False, revoked_at=None)
    return owned.exclude(pk=token.pk).order_by("name", "pk")


def usable(customer: Customer) -> QuerySet[ApiToken]:
    """The customer's tokens that can be topped up and used."""
    usable = customer.tokens.filter(is_test=False, revoked_at=None, expires_at__gt=timezone.now())
    return usable.order_by("name", "pk")


class StateFilter(ConditionFilter):
    title = parameter_name = "state"

    @cached_property
    def conditions(self) -> dict[str, tuple[str, Q]]:
        now = timezone.now()
        usable = Q(revoked_at=None, expires_at__gt=now)
        return {
            "active": ("active", usable & (Q(previous_until=None) | Q(previous_until__lte=now))),
            "in grace": (PREVIOUS_WORKS, usable & Q(previous_until__gt=now)),
            "revoked": ("revoked", ~Q(revoked_at=None)),
            "expired": ("expired", Q(revoked_at=None, expires_at__lte=now)),
        }


def running_out() -> QuerySet[ApiToken]:
    """The tokens with credits that run out of them or expire within SOON_DAYS days, at most MAX_LISTED. Takes longer
    the more tokens are in use."""
    soon, _ = request_statistics.ending(timezone.now(), within_days=SOON_DAYS, limit=MAX_LISTED)
    return ApiToken.objects.filter(pk__in=[one.token.pk for one in soon])


class RunsOutFilter(ConditionFilter):
    title = "runs out"
    parameter_name = "runs_out"

    @cached_property
    def conditions(self) -> dict[str, tuple[str, Q]]:
        now = timezone.now()
        return {
            "soon": (f"running out within {SOON_DAYS} days", Q()),
            "expiring": (f"expiring within {SOON_DAYS} days", request_statistics.expiring(now, SOON_DAYS)),
            "none": (OUT_OF_CREDITS, request_statistics.out_of_credits(now)),
        }

    def queryset(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> QuerySet[ApiToken]:
        if self.value() != "soon":
            return super().queryset(request, queryset)
        return queryset.filter(pk__in=running_out())


class ModeFilter(ConditionFilter):
    title = parameter_name = "mode"
    conditions = {"live": ("live", Q(is_test=False)), TEST: (TEST, Q(is_test=True))}


class TokenList(NewestRowsList):
    limit = "tokens; #id and the last 4 characters find any token"
    ascending_first = ("expires", "runs_out")
    computed = ("runs_out",)
    sorted_with = {("runs_out", "soon"): "runs_out", ("runs_out", "expiring"): "expires_at"}

    def sort_values(self, ids: list[int], names: Collection[str]) -> dict[str, dict[int, End]]:
        now, columns = timezone.now(), ("pk", "credits", "created_at", "expires_at", "is_test", "charged")
        usable = self.queryset.filter(revoked_at=None, expires_at__gt=now).order_by()
        in_use = request_statistics.with_charged(usable.filter(is_test=False, credits__gt=0), now)
        with db.statement_timeout(TIMEOUT_S):
            # Those that are out of credits come last: nothing is left to run out.
            lasting = usable.exclude(request_statistics.out_of_credits(now))
            ends = {pk: End(at, "expires") for pk, at in lasting.values_list("pk", "expires_at")}
            for each in in_use.values_list(*columns, named=True):
                ends[each.pk] = request_statistics.runs_out(each, each.charged, now)
        return {"runs_out": ends}

    def identified(self) -> Q:
        return search_text.identified_tokens(self.query)

    def with_figures(self) -> QuerySet[ApiToken]:
        return request_statistics.with_activity(ApiToken.objects.select_related("customer"), timezone.now())
