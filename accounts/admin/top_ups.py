"""Ledger entries that operators add to one token or to several at once."""

import logging
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.db import DatabaseError, transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path, reverse
from django.utils.text import Truncator

from accounts import credits
from accounts.admin.allowance import allowance, limited_user, require_allowance
from accounts.admin.base_classes import ShownAdmin, TokenRefusingAdmin
from accounts.admin.credit_forms import MAX_AT_ONCE, BulkTopUpForm
from accounts.models import ApiToken, CreditEntry
from core.admin import ConsoleAdmin, Unchanged, require
from core.cells import money
from core.field_errors import FieldError

log = logging.getLogger(__name__)

TOP_UP = "accounts.top_up_apitoken"
#: On each page that changes a balance or moves credits.
ASKS_AGAIN = (
    "If an entry with the same amount and reason was made in the last "
    f"{credits.REPEAT_WINDOW // timedelta(minutes=1)} minutes, the page asks before it makes another one."
)
TOP_UP_EXPLANATION = f"Credits are available immediately. A reference that was used already is refused. {ASKS_AGAIN}"


def record(
    model_admin: ConsoleAdmin,
    request: HttpRequest,
    service: Callable[..., tuple[CreditEntry, bool]],
    token: ApiToken,
    data: dict[str, Any],
) -> str:
    """Within a transaction: write a ledger entry by `service`, unless the reference has one. The message."""
    require_allowance(request, data["amount"], token.entries.filter(reference=data["reference"]))
    fields = {name: data[name] for name in ("amount", "price", "reason", "reference")}
    try:
        actor, may_repeat = request.user.get_username(), data["may_repeat"]
        entry, is_new = service(token=token, actor=actor, may_repeat=may_repeat, **fields)
    except credits.ReferenceUsed:
        if data["own_reference"]:
            raise
        raise ValueError(
            "This page was submitted before with another amount or price. Open it again to add another entry."
        ) from None
    what = f"ledger entry {entry.pk}, {entry.kind} of {entry.amount:+,} credits"
    if entry.price is not None:
        what += f" for {money(entry.price.normalize())} {settings.CURRENCY}"
    if data["own_reference"]:
        what += f", reference {entry.reference}"
    if not is_new:
        return Unchanged(f"Already recorded ({what}); nothing added.")
    message = f"Added {what}, balance {entry.balance_after:,}."
    if entry.own_reason:
        message += f" Reason: {entry.own_reason}"
    model_admin.log_change(request, token, message)
    return message


class TopUpAdmin(ShownAdmin, TokenRefusingAdmin):
    actions = ("top_up_selected",)

    def get_urls(self) -> list[URLPattern]:
        bulk = self.admin_site.admin_view(self.top_up_selected_view)
        return [path("top-up/", bulk, name="accounts_apitoken_top_up_selected"), *super().get_urls()]

    # --- Top up several tokens -----------------------------------------------------------------------------------

    def has_top_up_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request) and request.user.has_perm(TOP_UP)

    @admin.action(description="Top up selected API tokens", permissions=["top_up"])
    def top_up_selected(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> HttpResponseBase | None:
        """Shows the form, which is submitted to top_up_selected_view."""
        chosen = list(queryset.filter(revoked_at=None, is_test=False).order_by("pk")[: MAX_AT_ONCE + 1])
        if not 1 <= len(chosen) <= MAX_AT_ONCE:
            text = f"Select 1 to {MAX_AT_ONCE} tokens that are neither revoked nor test tokens."
            self.message_user(request, text, messages.ERROR)
            return None
        form = BulkTopUpForm(initial={"tokens": ",".join(str(token.pk) for token in chosen)})
        return self._bulk_page(request, form, chosen)

    def top_up_selected_view(self, request: HttpRequest) -> HttpResponseBase:
        require(self.has_top_up_permission(request))
        if request.method != "POST":  # after the session has ended: kept_form.js knows the tokens
            return self._bulk_page(request, BulkTopUpForm(), [])
        form = BulkTopUpForm(request.POST, limited_user=limited_user(request))
        form.full_clean()
        return self._bulk_page(request, form, form.cleaned_data.get("tokens", []))

    def _bulk_page(self, request: HttpRequest, form: BulkTopUpForm, chosen: list[ApiToken]) -> HttpResponseBase:
        names = Truncator(", ".join(map(str, chosen))).chars(1_000)
        each = f"{len(chosen)} tokens: {names}" if chosen else "the tokens that you have selected in the list"
        return self.form_page(
            request,
            form,
            partial(self._top_up_each, request),
            atomic=False,
            title="Top up selected API tokens",
            button="Top up",
            explanation=f"Adds the amount to each of {each}. {ASKS_AGAIN} {allowance(request)}",
            form_url=reverse("admin:accounts_apitoken_top_up_selected"),
            error_title="Not all tokens were topped up.",
        )

    def _top_up_each(self, request: HttpRequest, data: dict[str, Any]) -> str:
        """Each token in its own transaction (see credits.change_balance); resubmitting retries what failed."""
        chosen: list[ApiToken] = data["tokens"]
        added, failed, refused, field = 0, [], [], ""
        for token in chosen:
            try:
                with transaction.atomic():
                    added += not isinstance(record(self, request, credits.top_up, token, data), Unchanged)
            except ValueError as error:
                refused.append(f"{token}: {error}")
                field = error.field if isinstance(error, credits.PossiblyRepeated) else field
            except DatabaseError as error:  # its text may hold what was typed
                log.warning("top-up failed: token=%d %s", token.pk, type(error).__name__)
                failed.append(str(token))
        if failed or refused:
            sentences = [f"{len(failed) + len(refused)} of {len(chosen)} tokens were not topped up."]
            if failed:
                sentences.append(f"Database errors; submit again to retry only these: {', '.join(failed)}.")
            raise FieldError(" ".join([*sentences, *refused]), field)
        if not added:
            reference = data["own_reference"]
            by = f"with reference {reference}" if reference else "when this page was submitted before"
            return Unchanged(f"Already recorded {by}; nothing added.")
        return f"Added {data['amount']:,} credits to each of {added} tokens. Reason: {data['reason']}"
