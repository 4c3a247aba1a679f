"""The tokens in the console. Only accounts.credits changes a balance.

A token's JWT appears in the response to the POST that made it and nowhere else: in no redirect, message or history.
"""

import json
import logging
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db import DatabaseError, transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.text import Truncator
from unfold.decorators import display
from unfold.enums import ActionVariant

from accounts import credits, request_statistics, tokens
from accounts.admin import base, token_list
from accounts.admin.base import TokenRefusingAdmin, require_allowance
from accounts.admin.charts import requests_chart
from accounts.admin.token_forms import (
    GRACES,
    MAX_AT_ONCE,
    AdjustForm,
    ApiTokenForm,
    BulkTopUpForm,
    IssueForm,
    RevokeForm,
    RotateForm,
    TopUpForm,
)
from accounts.models import ApiToken, CreditEntry
from core.admin import RELATED_PAGES, Secret, Unchanged, column, form_action, require, submitted
from core.numbers import EXAMPLE_NUMBER

log = logging.getLogger(__name__)

TEST_EXAMPLE_NUMBER = "12125550100"  # one of lookup.test_mode.CASES
NEWEST_ENTRIES = 20


TOP_UP, ADD_CUSTOMER = "accounts.top_up_apitoken", "accounts.add_customer"


def _test_badge() -> str:
    return render_to_string("unfold/helpers/label.html", {"text": token_list.TEST, "type": "info"})


@admin.register(ApiToken)
class ApiTokenAdmin(TokenRefusingAdmin):
    form = ApiTokenForm
    changelist_class = token_list.TokenList
    fields = ("name", "customer", "note", "contact", "low_balance_at")
    list_display = (
        "name_and_customer",
        "hint",
        "balance",
        "state_label",
        "last_charged",
        "searches",
        "runs_out",
        "expires",
    )
    sortable_by = ("name_and_customer", "balance", "last_charged", "expires")
    list_filter = (token_list.StateFilter, token_list.ModeFilter, token_list.RunsOutFilter)
    lookups_allowed = ("state", "mode", "runs_out", "customer__id__exact")
    search_fields = ("name", "note", "contact")
    search_help_text = "Name, note, contact, #id or the token's last 4 characters"
    ordering = ("-pk",)
    actions = ("top_up_selected",)
    actions_detail = ("top_up", "adjust", "rotate", "revoke")

    # --- The list ------------------------------------------------------------------------------------------------

    hint = column(lambda token: token.hint, "token")
    name_and_customer = column(
        lambda token: (
            format_html(
                '<bdi>{}</bdi><small class="block"><bdi>{}</bdi></small>',
                *(token.name, Truncator(token.customer.name).chars(40)),
            )
            if token.customer
            else format_html("<bdi>{}</bdi>", token.name)
        ),
        "name",
        "name",
    )
    balance = column(lambda token: _test_badge() if token.is_test else f"{token.credits:,}", "balance", "credits")
    last_charged = column(
        lambda token: f"{token.last_charged_at:%Y-%m-%d %H:%M}" if token.last_charged_at else "-",
        "last charged (UTC)",
        "last_charged_at",
    )
    searches = column(lambda token: f"{token.searches_30d:,}", "searches (30 days)")
    runs_out = column(lambda token: token_list.runs_out(token, timezone.now()), "runs out")
    expires = column(lambda token: f"{token.expires_at:%Y-%m-%d}", "expires", "expires_at")

    @display(description="state", label=token_list.STATE_LABELS)  # type: ignore[untyped-decorator]  # unfold has no types
    def state_label(self, token: ApiToken) -> str:
        return token_list.shown_state(token)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[ApiToken], search_term: str
    ) -> tuple[QuerySet[ApiToken], bool]:
        """`#12` is the token with this id; `12` also searches for text. tokens.find says how a JWT is searched."""
        text = search_term.strip()
        if not text:
            return queryset, False
        identified = queryset.filter(base.identified_tokens(text))
        if base.is_only_id(text):
            return identified, False
        found, duplicates = super().get_search_results(request, queryset, text)
        return found | identified, duplicates

    # --- The token's page ----------------------------------------------------------------------------------------

    def get_fields(self, request: HttpRequest, obj: ApiToken | None = None) -> tuple[str, ...]:
        return self.fields[:3] if obj is not None and obj.is_test else self.fields  # without those of the balance

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tokens are revoked, never deleted: their ledger is kept."""
        return False

    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        form = super().get_form(request, *args, **kwargs)
        if "customer" in form.base_fields:
            form.base_fields["customer"].widget.can_create = request.user.has_perm(ADD_CUSTOMER)
        return form

    def save_model(self, request: HttpRequest, obj: ApiToken, form: forms.ModelForm, change: bool) -> None:
        """Save the edited columns only: saving all of them would undo what searches have charged meanwhile."""
        require(change)  # Django's "save as new" must not bypass `tokens.issue`
        obj.save(update_fields=form.changed_data)

    def page_context(self, request: HttpRequest, obj: ApiToken) -> dict[str, Any]:
        now = timezone.now()
        token = request_statistics.with_activity(ApiToken.objects.select_related("customer"), now).get(pk=obj.pk)
        days = request_statistics.by_day([token.pk], now)
        requests = RELATED_PAGES[ApiToken]
        return {
            "show_save_and_add_another": False,
            "token": token,
            "customer_pages": settings.CUSTOMER_PAGES,
            "state": token_list.state_label(token),
            "runs_out": self.runs_out(token),
            "chart": requests_chart(days, label="%b %d", by="day", is_test=token.is_test),
            "requests_url": requests.url(token) if request.user.has_perm(requests.permission) else "",
            "entries": token.entries.order_by("-created_at", "-pk")[:NEWEST_ENTRIES],
        }

    def get_urls(self) -> list[URLPattern]:
        bulk = self.admin_site.admin_view(self.top_up_selected_view)
        return [path("top-up/", bulk, name="accounts_apitoken_top_up_selected"), *super().get_urls()]

    # --- Issue, top up, adjust, rotate, revoke -------------------------------------------------------------------

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        require(self.has_add_permission(request))

        def perform(data: dict[str, Any]) -> HttpResponse:
            return self._shown_once(request, self._issue(request, data), title="API token issued")

        customer_id = base.id_in(request.GET.get("customer", ""))  # from the customer's page
        form = IssueForm(submitted(request), initial={"customer": customer_id})
        form.fields["customer"].widget.can_create = request.user.has_perm(ADD_CUSTOMER)
        explanation = "You will see the token once, after issuing."
        return self.form_page(
            request, form, perform, title="Issue an API token", button="Issue", explanation=explanation
        )

    def _issue(self, request: HttpRequest, data: dict[str, Any]) -> tokens.Issued:
        """Within a transaction."""
        reference = data.pop("once").hex
        repeated = CreditEntry.objects.filter(kind=CreditEntry.Kind.ISSUE, reference=reference)
        require_allowance(request, data["initial_credits"], repeated)
        try:
            issued = tokens.issue(**data, actor=request.user.get_username(), reference=reference)
        except tokens.AlreadyIssued as error:
            raise ValidationError(
                f"This page has already issued token #{error.token_id} and shown it. If you lost it, rotate that "
                "token. To issue another token, open this page again."
            ) from error
        kind = "no credits (a test token)" if issued.token.is_test else f"{data['initial_credits']} credits"
        self.log_addition(request, issued.token, f"Issued: {kind}, {data['days']} days. {data['reason']}")
        return issued

    def offers(self, request: HttpRequest, url_path: str, obj: ApiToken) -> bool:
        return (url_path == "adjust" or obj.revoked_at is None) and not (
            obj.is_test and url_path in ("top-up", "adjust")
        )

    def action_context(self, request: HttpRequest, url_path: str, obj: ApiToken) -> dict[str, Any]:
        return {"state": token_list.state_label(obj), "initial": {"expires_at": obj.expires_at.isoformat()}}

    @form_action(
        "Top up",
        "view",
        TOP_UP,
        form=TopUpForm,
        explanation="Credits are available immediately. Resubmitting will not add them twice.",
        variant=ActionVariant.PRIMARY,
    )
    def top_up(self, request: HttpRequest, obj: ApiToken, data: dict[str, Any]) -> str:
        return self._record(request, credits.top_up, obj, data)

    @form_action(
        "Adjust",
        "view",
        "accounts.adjust_apitoken",
        form=AdjustForm,
        explanation="Corrects the balance with a ledger entry. For purchases, use Top up.",
    )
    def adjust(self, request: HttpRequest, obj: ApiToken, data: dict[str, Any]) -> str:
        return self._record(request, credits.adjust, obj, data)

    @form_action(
        "Rotate",
        "view",
        "accounts.rotate_apitoken",
        form=RotateForm,
        explanation=(
            "Issues a new token with a new lifetime. Balance, ledger and limits stay. An earlier grace period ends."
        ),
    )
    def rotate(self, request: HttpRequest, obj: ApiToken, data: dict[str, Any]) -> HttpResponse:
        token = ApiToken.objects.select_for_update().get(pk=obj.pk)
        if data["expires_at"] != token.expires_at.isoformat():
            raise ValidationError(
                "This token was rotated after you opened this page. Reload the page to rotate it again."
            )
        issued = tokens.rotate(token=token, grace=timedelta(minutes=data["grace_minutes"]))
        grace = f"The old token keeps working for: {GRACES[data['grace_minutes']]}."
        self.log_change(request, token, f"Rotated. {grace} {data['reason']}")
        return self._shown_once(request, issued, title="API token rotated")

    @form_action(
        "Revoke",
        "view",
        "accounts.revoke_apitoken",
        form=RevokeForm,
        explanation="The token stops working immediately. This cannot be undone.",
        variant=ActionVariant.DANGER,
    )
    def revoke(self, request: HttpRequest, obj: ApiToken, data: dict[str, Any]) -> str:
        if not tokens.revoke(token=obj, reason=data["reason"]):
            raise ValidationError("This token is already revoked.")
        self.log_change(request, obj, message := f"Revoked. {data['reason']}")
        return message

    def _record(
        self,
        request: HttpRequest,
        service: Callable[..., tuple[CreditEntry, bool]],
        token: ApiToken,
        data: dict[str, Any],
    ) -> str:
        """Within a transaction: write a ledger entry by `service`, unless the reference has one. The message."""
        require_allowance(request, data["amount"], token.entries.filter(reference=data["reference"]))
        fields = {name: data[name] for name in ("amount", "price", "reason", "reference")}
        entry, is_new = service(token=token, actor=request.user.get_username(), **fields)
        what = f"ledger entry {entry.pk}, {entry.kind} of {entry.amount:+,} credits"
        if data.get("own_reference"):
            what += f", reference {entry.reference}"
        if not is_new:
            return Unchanged(f"Already recorded ({what}); nothing added.")
        message = f"Added {what}, balance {entry.balance_after:,}. {entry.reason}"
        self.log_change(request, token, message)
        return message

    def _shown_once(self, request: HttpRequest, issued: tokens.Issued, *, title: str) -> HttpResponse:
        token = issued.token
        body = json.dumps(
            {"api_key": issued.api_key, "query": TEST_EXAMPLE_NUMBER if token.is_test else EXAMPLE_NUMBER}
        )
        url = request.build_absolute_uri(reverse("search"))
        curl = f"curl -s {url} -H 'Content-Type: application/json' -d '{body}'"
        until = token.previous_until
        return self.shown_once_page(
            request,
            token,
            Secret("api_key", "API token", issued.api_key, "Copy token"),
            Secret("curl", "Example request", curl, "Copy command"),
            title=title,
            warning="Copy this token now. It is not stored and will not be shown again.",
            note=f"The previous token works until {until:%Y-%m-%d %H:%M} UTC." if until else "",
        )

    # --- Top up several tokens -----------------------------------------------------------------------------------

    def has_top_up_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request) and request.user.has_perm(TOP_UP)

    @admin.action(description="Top up selected API tokens", permissions=["top_up"])
    def top_up_selected(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> HttpResponse | None:
        """Shows the form, which is submitted to top_up_selected_view."""
        found = queryset.filter(revoked_at=None, is_test=False).order_by("pk")[: MAX_AT_ONCE + 1]
        chosen = {token.pk: str(token) for token in found}
        if not 1 <= len(chosen) <= MAX_AT_ONCE:
            text = f"Select 1 to {MAX_AT_ONCE} tokens that are neither revoked nor test tokens."
            self.message_user(request, text, messages.ERROR)
            return None
        form = BulkTopUpForm(initial={"tokens": ",".join(map(str, chosen))})
        names = Truncator(", ".join(chosen.values())).chars(1_000)
        return self._bulk_page(request, form, f"Adds the amount to each of {len(chosen)} tokens: {names}. ")

    def top_up_selected_view(self, request: HttpRequest) -> HttpResponse:
        require(self.has_top_up_permission(request))
        if request.method != "POST":
            return redirect("admin:accounts_apitoken_changelist")
        return self._bulk_page(request, BulkTopUpForm(request.POST))

    def _bulk_page(self, request: HttpRequest, form: BulkTopUpForm, explanation: str = "") -> HttpResponse:
        return self.form_page(
            request,
            form,
            partial(self._top_up_each, request),
            atomic=False,
            title="Top up selected API tokens",
            button="Top up",
            explanation=f"{explanation}Resubmitting will not add credits twice.",
            form_url=reverse("admin:accounts_apitoken_top_up_selected"),
            error_title="Not all tokens were topped up.",
        )

    def _top_up_each(self, request: HttpRequest, data: dict[str, Any]) -> str:
        """Each token in its own transaction (see credits.change_balance); resubmitting retries what failed."""
        added, problems = 0, []
        chosen = ApiToken.objects.filter(pk__in=data["tokens"]).order_by("pk")
        for token in chosen:
            try:
                with transaction.atomic():
                    added += not isinstance(self._record(request, credits.top_up, token, data), Unchanged)
            except (ValueError, DatabaseError) as error:
                log.warning("top-up failed: token=%d %s", token.pk, type(error).__name__)
                # The text of a database error may hold what was typed.
                problems.append(f"{token}: {'database error.' if isinstance(error, DatabaseError) else error}")
        if problems:
            sentence = f"{len(problems)} of {len(chosen)} tokens were not topped up. Submit again to retry only those."
            raise ValidationError([sentence, *problems])
        if not added:
            return Unchanged("Already recorded; nothing added.")
        return f"Added {data['amount']:,} credits to each of {added} tokens. {data['reason']}"
