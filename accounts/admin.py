"""Tokens and their ledger in Django's admin. It parses, calls the verbs and shows; only they change a balance.

A token's JWT appears in the answer to the POST that made it and nowhere else: no redirect, message or history has it.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import AdminForm
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.safestring import mark_safe

from accounts import credits, tokens
from accounts.forms import AdjustForm, ApiTokenForm, BookingForm, IssueForm, RevokeForm, RotateForm
from accounts.models import ApiToken, CreditEntry

EXAMPLE_NUMBER = "493023125042"  # reserved for fiction


@dataclass(frozen=True, slots=True)
class Done:
    """What to tell the operator and, unless nothing changed, the token's history; a rotation also has a new token."""

    sentence: str
    changed: bool = True
    issued: tokens.Issued | None = None


@dataclass(frozen=True, slots=True)
class Action:
    """A page of one token: GET shows `form`, POST does `perform` on the locked row with its data and `actor`."""

    title: str
    form: type[forms.Form]
    perform: Callable[[ApiToken, dict[str, Any]], Done]
    explanation: str = ""


def _book(verb: Callable[..., CreditEntry], token: ApiToken, data: dict[str, Any]) -> Done:
    repeated = token.entries.filter(reference=data["reference"]).exists()
    booking = {name: data[name] for name in ("amount", "actor", "reason", "reference")}
    entry = verb(token=token, **booking)
    row = f"{entry.kind} of {entry.amount:+d} credits, ledger row {entry.pk}"
    if repeated:
        return Done(f"This was booked before ({row}): nothing was added.", changed=False)
    return Done(f"Booked: {row}, balance {entry.balance_after}. {entry.reason}")


def _top_up(token: ApiToken, data: dict[str, Any]) -> Done:
    return _book(credits.top_up, token, data)


def _adjust(token: ApiToken, data: dict[str, Any]) -> Done:
    return _book(credits.adjust, token, data)


def _rotate(token: ApiToken, data: dict[str, Any]) -> Done:
    if data["expires_at"] != token.expires_at.isoformat():
        raise ValidationError("This token was rotated after this page was opened. Open the page again to rotate anew.")
    try:
        issued = tokens.rotate(token=token, grace=timedelta(minutes=data["grace_minutes"]))
    except tokens.TokenRevoked as error:
        raise ValidationError("A revoked token stays revoked: issue a new one.") from error
    return Done(f"Rotated, with {data['grace_minutes']} minutes of grace for the earlier token.", issued=issued)


def _revoke(token: ApiToken, data: dict[str, Any]) -> Done:
    if not tokens.revoke(token=token, reason=data["reason"]):
        raise ValidationError("This token was revoked before.")
    return Done(f"Revoked. {data['reason']}")


ACTIONS = {
    "top-up": Action("Top up", BookingForm, _top_up),
    "adjust": Action("Adjust", AdjustForm, _adjust),
    "rotate": Action(
        "Rotate",
        RotateForm,
        _rotate,
        "Makes a new token with a fresh lifetime. Credits, ledger and limits stay. An earlier rotation's grace ends.",
    ),
    "revoke": Action(
        "Revoke", RevokeForm, _revoke, "From the next request on the token is refused. This cannot be undone."
    ),
}


class StateFilter(admin.SimpleListFilter):
    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin) -> list[tuple[str, str]]:
        return [(state, state) for state in ("active", "revoked", "expired")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> QuerySet[ApiToken]:
        now = timezone.now()
        match self.value():
            case "active":
                return queryset.filter(revoked_at=None, expires_at__gt=now)
            case "revoked":
                return queryset.exclude(revoked_at=None)
            case "expired":
                return queryset.filter(revoked_at=None, expires_at__lte=now)
        return queryset


@admin.register(ApiToken)
class ApiTokenAdmin(admin.ModelAdmin):
    form = ApiTokenForm
    list_display = ("name", "balance", "state", "last_charged_search", "expires")
    list_filter = (StateFilter,)
    search_fields = ("name",)
    ordering = ("-pk",)
    readonly_fields = (
        "balance",
        "state",
        "last_charged_search",
        "created_at",
        "expires_at",
        "lifetime_days",
        "previous_until",
        "revoked_at",
        "revoked_reason",
    )
    fieldsets = ((None, {"fields": ("name", "note")}), ("Account", {"fields": readonly_fields}))

    @admin.display(description="balance (credits)", ordering="credits")
    def balance(self, token: ApiToken) -> int:
        return token.credits

    @admin.display(description="last charged search", ordering="last_charged_at")
    def last_charged_search(self, token: ApiToken) -> str:
        return f"{token.last_charged_at:%Y-%m-%d %H:%M}" if token.last_charged_at else "-"

    @admin.display(description="expires", ordering="expires_at")
    def expires(self, token: ApiToken) -> str:
        return f"{token.expires_at:%Y-%m-%d}"

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tokens are revoked, never deleted: their ledger stays."""
        return False

    def save_model(self, request: HttpRequest, obj: ApiToken, form: forms.ModelForm, change: bool) -> None:
        """Only what was edited: writing every column would take back what searches have charged meanwhile."""
        if not change:  # Django's "save as new" must not pass by `tokens.issue`
            raise PermissionDenied
        obj.save(update_fields=form.changed_data)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.action_view)
        pages = [
            path(
                f"<int:token_id>/{slug}/",
                view,
                {"action": action},
                name=f"accounts_apitoken_{slug.replace('-', '_')}",
            )
            for slug, action in ACTIONS.items()
        ]
        return pages + super().get_urls()

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Issue a token. The answer to the POST shows it, this once."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        form = IssueForm(request.POST if request.method == "POST" else None)
        if form.is_bound and form.is_valid():
            try:
                with transaction.atomic():
                    issued = self._issue(request, form.cleaned_data)
            except (ValueError, ValidationError) as error:
                form.add_error(None, _sentence(error))
            else:
                return self._shown_once(request, issued, title="Token issued")
        return self._form_page(request, form, title="Issue a token", button="Issue")

    def _issue(self, request: HttpRequest, data: dict[str, Any]) -> tokens.Issued:
        try:
            issued = tokens.issue(
                name=data["name"],
                initial_credits=data["initial_credits"],
                days=data["days"],
                actor=request.user.get_username(),
                reference=data["once"].hex,
            )
        except tokens.AlreadyIssued as error:
            raise ValidationError(
                f"This page has issued token #{error.token_id} already, and its answer showed it. If that answer was "
                "lost, rotate that token; for another one, open this page again."
            ) from error
        issued.token.note = data["note"]
        issued.token.save(update_fields=["note"])
        self.log_addition(request, issued.token, f"Issued: {data['initial_credits']} credits, {data['days']} days.")
        return issued

    def action_view(self, request: HttpRequest, token_id: int, action: Action) -> HttpResponse:
        if not self.has_change_permission(request):
            raise PermissionDenied
        token = get_object_or_404(ApiToken, pk=token_id)
        form = action.form(
            request.POST if request.method == "POST" else None, initial={"expires_at": token.expires_at.isoformat()}
        )
        if form.is_bound and form.is_valid():
            try:
                with transaction.atomic():
                    token = ApiToken.objects.select_for_update().get(pk=token_id)
                    done = action.perform(token, {**form.cleaned_data, "actor": request.user.get_username()})
                    if done.changed:
                        self.log_change(request, token, done.sentence)
            except (ValueError, ValidationError) as error:
                form.add_error(None, _sentence(error))
            else:
                if done.issued:
                    return self._shown_once(request, done.issued, title="Token rotated")
                self.message_user(request, done.sentence, messages.SUCCESS if done.changed else messages.WARNING)
                return redirect("admin:accounts_apitoken_change", token_id)
        return self._form_page(
            request,
            form,
            title=f"{action.title}: {token}",
            button=action.title,
            explanation=action.explanation,
            token=token,
        )

    def _form_page(self, request: HttpRequest, form: forms.Form, **context: Any) -> HttpResponse:
        visible = [field.name for field in form.visible_fields()]
        adminform = AdminForm(form, [(None, {"fields": visible})], {})  # type: ignore[arg-type]  # any form will do
        return self._page(request, "form.html", form=form, adminform=adminform, **context)

    def _shown_once(self, request: HttpRequest, issued: tokens.Issued, *, title: str) -> HttpResponse:
        body = json.dumps({"api_key": issued.api_key, "query": EXAMPLE_NUMBER})
        url = request.build_absolute_uri(reverse("search"))
        curl = f"curl -s {url} -H 'Content-Type: application/json' -d '{body}'"
        return self._page(
            request, "shown_once.html", title=title, token=issued.token, api_key=issued.api_key, curl=curl
        )

    def _page(self, request: HttpRequest, template: str, **context: Any) -> HttpResponse:
        context = {**self.admin_site.each_context(request), "opts": self.opts, **context}
        return TemplateResponse(request, f"admin/accounts/apitoken/{template}", context)


def _sentence(error: Exception) -> str:
    return " ".join(error.messages) if isinstance(error, ValidationError) else str(error)


class ReadOnlyAdmin(admin.ModelAdmin):
    """Rows that nobody writes by hand, whatever their permissions."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(CreditEntry)
class CreditEntryAdmin(ReadOnlyAdmin):
    """Read-only for everyone: the database would refuse a change anyway."""

    list_display = ("when", "account", "kind", "amount", "balance_after", "details")
    fields = ("token", "created_at", "kind", "amount", "balance_after", "actor", "reason", "reference", "request_id")
    list_filter = ("kind",)
    list_select_related = ("token",)
    search_fields = ("token__name", "request_id__exact", "reference")
    ordering = ("-pk",)
    show_full_result_count = False

    @admin.display(description="when (UTC)", ordering="pk")
    def when(self, entry: CreditEntry) -> str:
        return f"{entry.created_at:%Y-%m-%d %H:%M:%S}"

    @admin.display(description="token")
    def account(self, entry: CreditEntry) -> str:
        """As text: Django keeps a relation's cell on one line, and the table would not fit."""
        return str(entry.token)

    @admin.display(description="details")
    def details(self, entry: CreditEntry) -> str:
        """Why and who, or which request. Its id may break: as one long word it pushes the table out of the window."""
        if entry.request_id:
            parts = re.findall(".{1,16}", entry.request_id)
            return format_html_join(mark_safe("<wbr>"), "{}", ((part,) for part in parts))
        return ", ".join(filter(None, (entry.reason, entry.actor)))
