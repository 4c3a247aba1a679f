"""Finding tokens in the console: the list's filters, and how far it looks."""

import re
from typing import Any

from django.contrib import admin, messages
from django.db import OperationalError
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from accounts import activity, sifting
from accounts.admin.base import MAX_LISTED, IndexedChangeList
from accounts.models import ApiToken

SOON_DAYS = 7
OUT_OF_CREDITS = "out of credits"


def shown_state(token: ApiToken) -> str:
    """The token's state; `out of credits` for one that works, but cannot pay for a search."""
    state = token.state
    return OUT_OF_CREDITS if state in ("active", "in grace") and token.credits == 0 else state


class StateFilter(admin.SimpleListFilter):
    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin) -> list[tuple[str, str]]:
        return [(state, state) for state in ("active", "in grace", "revoked", "expired")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> QuerySet[ApiToken]:
        now = timezone.now()
        usable = Q(revoked_at=None, expires_at__gt=now)
        match self.value():
            case "active":
                return queryset.filter(usable, Q(previous_until=None) | Q(previous_until__lte=now))
            case "in grace":
                return queryset.filter(usable, previous_until__gt=now)
            case "revoked":
                return queryset.exclude(revoked_at=None)
            case "expired":
                return queryset.filter(revoked_at=None, expires_at__lte=now)
        return queryset


class RunsOutFilter(admin.SimpleListFilter):
    title = "credits"
    parameter_name = "runs_out"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin) -> list[tuple[str, str]]:
        return [("soon", f"run out within {SOON_DAYS} days"), ("none", "no credits")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> QuerySet[ApiToken]:
        match self.value():
            case "soon":
                try:
                    soon = activity.running_out(timezone.now(), within_days=SOON_DAYS)
                except OperationalError:  # it grows with the tokens in use
                    messages.warning(request, "The database did not tell in time which tokens run out soon.")
                    return queryset.none()
                return queryset.filter(pk__in=[one.token.pk for one in soon[:MAX_LISTED]])
            case "none":
                return queryset.filter(credits=0)
        return queryset


def asked_id(query: str) -> int | None:
    """`12` or `#12`."""
    match = re.fullmatch(r"#?([0-9]{1,18})", query.strip())
    return int(match[1]) if match else None


class TokenList(IndexedChangeList):
    """Filters, sorting and searching see the newest tokens (accounts.sifting), and the one whose id is asked for."""

    sifts_some = False

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[ApiToken]:
        found: QuerySet[ApiToken] = super().get_queryset(request, exclude_parameters)
        passed_over = sifting.passed_over()
        self.sifts_some = bool(self.params) and passed_over > 0
        if not self.sifts_some:
            return found
        return found.filter(Q(pk__gt=passed_over) | Q(pk=asked_id(self.query)))

    def get_results(self, request: HttpRequest) -> None:
        """The figures of the page's tokens alone: the database would else count for all that it passes over."""
        super().get_results(request)
        ids = [token.pk for token in self.result_list]
        rows = activity.with_activity(ApiToken.objects.all(), timezone.now()).in_bulk(ids)
        self.result_list = [rows[pk] for pk in ids if pk in rows]
