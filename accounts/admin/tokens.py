"""The tokens in the console. Only accounts.credits changes a balance.

A token's JWT appears in the response to the POST that made it and nowhere else: in no redirect, message or history.
"""

import json
import logging
from datetime import timedelta
from typing import Any, cast
from urllib.parse import quote, urlencode

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.text import Truncator
from unfold.decorators import display
from unfold.enums import ActionVariant

from accounts import credits, customers, request_statistics, tokens
from accounts.admin import search_text, token_list
from accounts.admin.allowance import allowance, limited_user, require_allowance
from accounts.admin.charts import requests_chart
from accounts.admin.credit_forms import AdjustForm, MoveCreditsForm, TopUpForm
from accounts.admin.ledger import described
from accounts.admin.suggest_fields import CustomerField
from accounts.admin.token_forms import GRACES, ApiTokenForm, EndGraceForm, IssueForm, RevokeForm, RotateForm
from accounts.admin.top_ups import ASKS_AGAIN, TOP_UP, TOP_UP_EXPLANATION, TopUpAdmin, record
from accounts.models import JWT_PREFIX, ApiToken, CreditEntry, Customer, CustomerContact
from core.admin import (
    Secret,
    Unchanged,
    form_action,
    related_page,
    require,
    submitted,
)
from core.cells import column, page_url
from core.numbers import EXAMPLE_NUMBER
from core.text import without_joiners

log = logging.getLogger(__name__)

TEST_EXAMPLE_NUMBER = "12125550100"  # one of lookup.test_mode.CASES
NEWEST_ENTRIES = 20


ADD_CUSTOMER, MOVE_CREDITS = "accounts.add_customer", "accounts.transfer_apitoken"


def _test_badge() -> str:
    return render_to_string("unfold/helpers/label.html", {"text": token_list.TEST, "type": "info"})


def _previous_token_text(token: ApiToken) -> str:
    """Of a token that was rotated now, what becomes of its previous JWT."""
    until = token.previous_until
    return f"The previous token works until {until:%Y-%m-%d %H:%M} UTC." if until else "The previous token has stopped."


def _notice(*, old: ApiToken, new: ApiToken) -> dict[str, str]:
    """A message to the customer about a rotation, without the new JWT, and the URL of an e-mail with it."""
    contacts = [each.email for each in new.customer.contacts.all()] if new.customer else []
    to = quote(",".join([new.contact] if new.contact else contacts), safe="@,")
    text = (
        f"Your API token {new.name} ({old.hint}) was replaced. {_previous_token_text(new)} "
        "You get the new token separately: enter it in place of the previous one."
    )
    query = urlencode({"subject": f"New API token: {new.name}", "body": text}, quote_via=quote)
    return {"notice": text, "mail_url": f"mailto:{to}?{query}"}


@admin.register(ApiToken)
class ApiTokenAdmin(TopUpAdmin):
    form = ApiTokenForm
    changelist_class = token_list.TokenList
    fields = ("name", "customer", "note", "rate_limit", "contact", "low_balance_at")
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
    sortable_by = ("name_and_customer", "balance", "last_charged", "runs_out", "expires")
    list_filter = (token_list.StateFilter, token_list.ModeFilter, token_list.RunsOutFilter)
    lookups_allowed = ("state", "mode", "runs_out", "customer__id__exact")
    search_fields = ("name__shown", "note__shown", "contact", "customer__name__shown")
    search_help_text = "Name, customer, note, contact, #id or last 4 characters"
    ordering = ("-pk",)
    add_label = "Issue an API token"
    history_fields = ("name", "customer", "rate_limit", "low_balance_at")
    actions_detail = ("top_up", "edit", "adjust", "move_credits", "rotate", "end_grace", "revoke")

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
    balance = column(
        lambda token: _test_badge() if token.is_test else f"{token.credits:,}", "balance (credits)", "credits"
    )
    last_charged = column(
        lambda token: f"{token.last_charged_at:%Y-%m-%d %H:%M}" if token.last_charged_at else "-",
        "last charged (UTC)",
        "last_charged_at",
    )
    searches = column(lambda token: f"{token.searches_30d:,}", "searches (30 days)")
    runs_out = column(lambda token: token_list.runs_out(token, timezone.now()), "runs out", "runs_out")
    expires = column(lambda token: f"{token.expires_at:%Y-%m-%d}", "expires", "expires_at")

    @display(description="state", label=token_list.STATE_LABELS)  # type: ignore[untyped-decorator]  # unfold has no types
    def state_label(self, token: ApiToken) -> str:
        return token_list.shown_state(token)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[ApiToken], search_term: str
    ) -> tuple[QuerySet[ApiToken], bool]:
        """`#12` is the token with this id; `12` also searches for text. tokens.find says how a JWT is searched. Where
        tokens are suggested, those that cannot be used are left out."""
        text = search_term.strip()
        if "model_name" in request.GET:  # of Django's view
            if text.startswith(JWT_PREFIX):  # a token must not be in a URL
                return queryset.none(), False
            queryset = queryset.filter(revoked_at=None, expires_at__gt=timezone.now()).select_related("customer")
        if not text:
            return queryset, False
        identified = queryset.filter(search_text.identified_tokens(text))
        if search_text.is_only_id(text):
            return identified, False
        found, duplicates = super().get_search_results(request, queryset, without_joiners(text))
        return found | identified, duplicates

    def suggestion_detail(self, obj: ApiToken) -> str:
        return ", ".join(token_list.details_and_customer(obj))

    # --- The token's page ----------------------------------------------------------------------------------------

    def get_fields(self, request: HttpRequest, obj: ApiToken | None = None) -> tuple[str, ...]:
        return self.fields[:4] if obj is not None and obj.is_test else self.fields  # without those of the balance

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tokens are revoked, never deleted: their ledger is kept."""
        return False

    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        form = super().get_form(request, *args, **kwargs)
        form.can_create_customer = request.user.has_perm(ADD_CUSTOMER)  # Django makes a class for each request
        return form

    def save_model(self, request: HttpRequest, obj: ApiToken, form: forms.ModelForm, change: bool) -> None:
        require(change)  # Django's "save as new" must not bypass `tokens.issue`
        if name := form.cleaned_data.get("new_customer"):
            obj.customer = self._create_customer(request, name)
        super().save_model(request, obj, form, change)

    def page_context(self, request: HttpRequest, obj: ApiToken) -> dict[str, Any]:
        now = timezone.now()
        token = request_statistics.with_activity(ApiToken.objects.select_related("customer"), now).get(pk=obj.pk)
        days = request_statistics.by_day([token.pk], now)
        requests = related_page(request, ApiToken)
        return {
            "token": token,
            "state": token_list.state_label(token),
            "runs_out": self.runs_out(token),
            "runs_out_note": token_list.runs_out_note(token_list.token_end(token, now), now),
            "rate_limit": tokens.rate_limit(token),
            "notified_customer": CustomerContact.objects.filter(customer=token.customer, low_balance=True).exists(),
            "chart": requests_chart(days, label="%b %d", by="day", is_test=token.is_test),
            "requests_url": requests.url(token) if requests else "",
            "entries": described(request, token.entries.order_by("-created_at", "-pk")[:NEWEST_ENTRIES]),
        }

    # --- Issue, top up, adjust, move credits, rotate, revoke -----------------------------------------------------

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponseBase:
        require(self.has_add_permission(request))

        def perform(data: dict[str, Any]) -> HttpResponse:
            return self._shown_once(request, self._issue(request, data), title="API token issued", **then)

        # From the customer's page, or from that of moving a token's credits, which follows then.
        customer_id, source_id = (search_text.id_in(request.GET.get(name, "")) for name in ("customer", "move_from"))
        then = {"back_url": page_url(ApiToken, "move_credits", source_id)} if source_id else {}
        initial, user = {"customer": customer_id}, limited_user(request)
        form = IssueForm(submitted(request), initial=initial, limited_user=user)
        if request.user.has_perm(ADD_CUSTOMER):
            cast(CustomerField, form.fields["customer"]).allow_creation()
        explanation = "The token is shown only once, after you issue it."
        return self.form_page(request, form, perform, title=self.add_label, button="Issue", explanation=explanation)

    def _create_customer(self, request: HttpRequest, name: str) -> Customer:
        """Within a transaction: a customer of this name, which somebody else may have created meanwhile."""
        customer, is_new = customers.get_or_create(name=name)
        if is_new:
            self.log_addition(request, customer, "Created for an API token.")
        return customer

    def _issue(self, request: HttpRequest, data: dict[str, Any]) -> tokens.Issued:
        """Within a transaction."""
        reference = data.pop("once").hex
        repeated = CreditEntry.objects.filter(kind=CreditEntry.Kind.ISSUE, reference=reference)
        require_allowance(request, data["initial_credits"], repeated)
        if name := data.pop("new_customer"):
            data["customer"] = self._create_customer(request, name)
        try:
            actor, may_repeat = request.user.get_username(), data.pop("may_repeat")
            issued = tokens.issue(**data, actor=actor, reference=reference, may_repeat=may_repeat)
        except tokens.AlreadyIssued as error:
            raise ValidationError(
                f"This page has already issued token #{error.token_id} and shown it. If you lost it, rotate that "
                "token. To issue another token, open this page again."
            ) from error
        kind = "no credits (a test token)" if issued.token.is_test else credits.credits_text(data["initial_credits"])
        self.log_addition(request, issued.token, f"Issued: {kind}, {data['days']} days. Reason: {data['reason']}")
        return issued

    def offers(self, request: HttpRequest, url_path: str, obj: ApiToken) -> bool:
        if url_path == "move-credits":
            return obj.credits > 0
        if url_path == "end-grace":
            return obj.state == "in grace"
        return (url_path in ("adjust", "edit") or obj.revoked_at is None) and not (
            obj.is_test and url_path in ("top-up", "adjust")
        )

    def action_context(self, request: HttpRequest, url_path: str, obj: ApiToken) -> dict[str, Any]:
        context: dict[str, Any] = {"details": token_list.details_and_customer(obj)}
        targets = token_list.targets(obj)
        match url_path:
            case "top-up" | "adjust":
                context["form_options"] = {"token": obj, "limited_user": limited_user(request)}
                context["explanation"] = allowance(request) if url_path == "top-up" else ""
            case "rotate":
                context["initial"] = {"expires_at": obj.expires_at.isoformat()}
                context["form_options"] = {"targets": self._targets_of_rest(request, obj)}
                if obj.state == "in grace":
                    context["explanation"] = "The grace period of the previous token ends."
            case "end-grace":
                context["initial"] = {"expires_at": obj.expires_at.isoformat()}
                if obj.state == "in grace":
                    until = f"{obj.previous_until:%Y-%m-%d %H:%M} UTC"
                    context["explanation"] = f"Otherwise the previous one works until {until}."
            case "move-credits":
                # Of a usable token an operator moves some credits; of a revoked one nobody can spend the rest.
                initial = {"amount": obj.credits} if obj.revoked_at else {}
                context |= {"initial": initial, "form_options": {"source": obj, "targets": targets}}
                context["explanation"] = f"This token has {credits.credits_text(obj.credits)}."
                if not targets.exists():
                    context["instead"] = self._instead_of_moving(request, obj)
            case "revoke":
                later = "; they can be moved later to another token of the customer" if obj.customer_id else ""
                left = f"Its credits cannot be spent then{later}." if obj.credits else ""
                context["form_options"] = {"targets": self._targets_of_rest(request, obj), "left": left}
        return context

    @staticmethod
    def _targets_of_rest(request: HttpRequest, token: ApiToken) -> QuerySet[ApiToken] | None:
        """What all its credits can be moved to, if it has any and the user may."""
        movable = token.credits > 0 and request.user.has_perm(MOVE_CREDITS)
        return token_list.targets(token) if movable else None

    def _instead_of_moving(self, request: HttpRequest, token: ApiToken) -> dict[str, str]:
        """What to do first if the customer has no other token."""
        if token.customer is None:
            text = "Credits are moved between tokens of one customer, and this token has no customer."
            if not self.has_change_permission(request):
                return {"text": f"{text} Ask an operator to enter one."}
            text += " Edit the token, and enter its customer."
            return {"text": text, "url": page_url(ApiToken, "edit", token.pk), "label": "Edit this token"}
        text = f"{token.customer} has no other token that can get the credits."
        if not self.has_add_permission(request):
            return {"text": f"{text} Ask an operator to issue one."}
        query = urlencode({"customer": token.customer_id, "move_from": token.pk})
        url = f"{page_url(ApiToken, 'add')}?{query}"
        return {"text": text, "url": url, "label": f"Issue an API token for {token.customer}"}

    @form_action(
        "Top up",
        "view",
        TOP_UP,
        form=TopUpForm,
        explanation=TOP_UP_EXPLANATION,
        variant=ActionVariant.PRIMARY,
    )
    def top_up(self, request: HttpRequest, obj: ApiToken, data: dict[str, Any]) -> str:
        return record(self, request, credits.top_up, obj, data)

    @form_action(
        "Adjust",
        "view",
        "accounts.adjust_apitoken",
        form=AdjustForm,
        explanation=f"Corrects the balance with a ledger entry. For purchases, use Top up. {ASKS_AGAIN}",
    )
    def adjust(self, request: HttpRequest, obj: ApiToken, data: dict[str, Any]) -> str:
        return record(self, request, credits.adjust, obj, data)

    @form_action(
        "Move credits",
        "view",
        MOVE_CREDITS,
        form=MoveCreditsForm,
        explanation=(
            "Moves credits to another token of the same customer. This is not a sale and changes no revenue. "
            + ASKS_AGAIN
        ),
    )
    def move_credits(self, request: HttpRequest, obj: ApiToken, data: dict[str, Any]) -> str:
        reference = data.pop("once").hex
        try:
            actor, may_repeat = request.user.get_username(), data.pop("may_repeat")
            moved = credits.transfer(from_token=obj, **data, actor=actor, reference=reference, may_repeat=may_repeat)
        except credits.ReferenceUsed:
            raise ValueError(
                "This page was submitted before with another amount or token. Open it again to move more."
            ) from None
        if not moved.is_new:
            return Unchanged(f"Already recorded (ledger entries {moved.taken.pk} and {moved.given.pk}); nothing moved.")
        return self._log_move(request, moved)

    @form_action(
        "Rotate",
        "view",
        "accounts.rotate_apitoken",
        form=RotateForm,
        explanation="Issues a new token with a new lifetime in place of the current one, also if that was stolen or "
        "leaked. Ledger and limits stay. The next page shows the new token, and a message to the customer.",
    )
    def rotate(self, request: HttpRequest, obj: ApiToken, data: dict[str, Any]) -> HttpResponse:
        target, reason = data.get("to_token"), data["reason"]
        if target is not None:
            credits.lock(obj, target)  # before `_unrotated` locks `obj` alone
        token = self._unrotated(obj, data)
        issued = tokens.rotate(token=token, grace=timedelta(minutes=data["grace_minutes"]))
        grace = f"The previous token keeps working for: {GRACES[data['grace_minutes']]}."
        self.log_change(request, token, f"Rotated. {grace} Reason: {reason}")
        moved = None
        if target is not None:
            actor = request.user.get_username()
            moved = credits.transfer_all(from_token=token, to_token=target, reason=reason, actor=actor)
        texts = [_previous_token_text(issued.token), f"{self._log_move(request, moved)}." if moved else ""]
        if not token.is_test:
            left = ApiToken.objects.values_list("credits", flat=True).get(pk=token.pk)
            texts.append(f"The balance of the new token is {credits.credits_text(left)}.")
        note = " ".join(filter(None, texts))
        notice = _notice(old=obj, new=issued.token)
        return self._shown_once(request, issued, title="API token rotated", note=note, **notice)

    @staticmethod
    def _unrotated(obj: ApiToken, data: dict[str, Any]) -> ApiToken:
        """The token, locked, as the page shows it. A double click must not end the grace period of a rotation."""
        token = ApiToken.objects.select_for_update().get(pk=obj.pk)
        if data["expires_at"] != token.expires_at.isoformat():
            raise ValidationError("This token was rotated after you opened this page. Reload the page.")
        return token

    @form_action(
        "End grace period",
        "view",
        "accounts.rotate_apitoken",
        form=EndGraceForm,
        explanation="The previous token stops working immediately. The current one keeps working.",
    )
    def end_grace(self, request: HttpRequest, obj: ApiToken, data: dict[str, Any]) -> str:
        if not tokens.end_grace(token=self._unrotated(obj, data)):
            return Unchanged("The grace period of this token has ended already.")
        self.log_change(request, obj, f"Ended the grace period. Reason: {data['reason']}")
        return "The previous token no longer works."

    @form_action(
        "Revoke",
        "view",
        "accounts.revoke_apitoken",
        form=RevokeForm,
        explanation="The token stops working immediately. This cannot be undone.",
        variant=ActionVariant.DANGER,
    )
    def revoke(self, request: HttpRequest, obj: ApiToken, data: dict[str, Any]) -> str:
        reason, target = data["reason"], data.get("to_token")
        moved = None
        if target is not None:
            actor = request.user.get_username()
            moved = tokens.revoke_and_move(token=obj, to_token=target, reason=reason, actor=actor)
        elif not tokens.revoke(token=obj, reason=reason):
            raise tokens.TokenRevoked("This token is already revoked.")
        self.log_change(request, obj, message := f"Revoked. Reason: {reason}")
        return f"Revoked. {self._log_move(request, moved)}" if moved else message

    def _log_move(self, request: HttpRequest, moved: credits.Transfer) -> str:
        """The message."""
        message, received = moved.messages()
        self.log_change(request, moved.given.other_token, message)
        self.log_change(request, moved.taken.other_token, received)
        return message

    def _shown_once(self, request: HttpRequest, issued: tokens.Issued, *, title: str, **context: Any) -> HttpResponse:
        token = issued.token
        body = json.dumps(
            {"api_key": issued.api_key, "query": TEST_EXAMPLE_NUMBER if token.is_test else EXAMPLE_NUMBER}
        )
        url = request.build_absolute_uri(reverse("search"))
        curl = f"curl -s {url} -H 'Content-Type: application/json' -d '{body}'"
        return self.shown_once_page(
            request,
            token,
            Secret("api_key", "API token", issued.api_key, "Copy token"),
            Secret("curl", "Example request", curl, "Copy command"),
            title=title,
            warning="Copy this token now. It is not stored and will not be shown again.",
            **context,
        )
