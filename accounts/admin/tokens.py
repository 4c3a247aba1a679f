"""Tokens in the console. It parses, calls the verbs and shows; only they change a balance.

A token's JWT appears in the answer to the POST that made it and nowhere else: no redirect, message or history has it.
"""

import json
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import DatabaseError, transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from unfold.decorators import display

from accounts import activity, sifting, tokens
from accounts.admin.base import LongListAdmin, require_allowance
from accounts.admin.charts import requests_chart
from accounts.admin.token_actions import ACTIONS, TOP_UP, Action, Done
from accounts.admin.token_list import OUT_OF_CREDITS, RunsOutFilter, StateFilter, TokenList, asked_id, shown_state
from accounts.forms import (
    MAX_AT_ONCE,
    ApiTokenForm,
    BulkForm,
    IssueForm,
)
from accounts.models import ApiToken, CreditEntry

log = logging.getLogger(__name__)

EXAMPLE_NUMBER = "493023125042"  # reserved for fiction
CHART_DAYS = 30
NEWEST_ENTRIES = 20


def _require_allowance(request: HttpRequest, amount: int, booked: QuerySet[CreditEntry]) -> None:
    """Before anything is locked but the operator; what is in `booked` already is not given again, so not refused."""
    if amount > 0:
        try:
            require_allowance(request, amount)
        except ValidationError:
            if not booked.exists():
                raise


def _runs_out(token: Any, now: datetime) -> str:
    """Of a token with_activity."""
    if token.state_at(now) in ("revoked", "expired"):
        return "-"
    at = activity.runs_out(token, token.charged, now)
    if at is None:
        return "not in sight"
    return f"{at:%Y-%m-%d}" if at > now else "no credits"


def _page_name(slug: str) -> str:
    return f"accounts_apitoken_{slug.replace('-', '_')}"


def _address(slug: str, *args: Any) -> str:
    return reverse(f"admin:{_page_name(slug)}", args=args)


@admin.register(ApiToken)
class ApiTokenAdmin(LongListAdmin):
    form = ApiTokenForm
    fields = ("name", "note", "contact", "low_balance_at")
    list_display = ("name", "balance", "state_label", "last_charged", "searches", "runs_out", "expires")
    sortable_by = ("name", "balance", "last_charged", "expires")
    list_filter = (StateFilter, RunsOutFilter)
    lookups_allowed = ("state", "runs_out")
    search_fields = ("name", "note", "contact")
    search_help_text = "Name, note, contact or #id"
    ordering = ("-pk",)
    actions = ("top_up_selected",)

    # --- The list ------------------------------------------------------------------------------------------------

    @admin.display(description="balance", ordering="credits")
    def balance(self, token: ApiToken) -> str:
        return f"{token.credits:,}"

    @display(  # type: ignore[untyped-decorator]  # unfold has no types
        description="state",
        label={
            "active": "success",
            "in grace": "info",
            OUT_OF_CREDITS: "warning",
            "expired": "warning",
            "revoked": "danger",
        },
    )
    def state_label(self, token: ApiToken) -> str:
        return shown_state(token)

    @admin.display(description="last charged (UTC)", ordering="last_charged_at")
    def last_charged(self, token: ApiToken) -> str:
        return f"{token.last_charged_at:%Y-%m-%d %H:%M}" if token.last_charged_at else "-"

    @admin.display(description="searches, 30 days")
    def searches(self, token: Any) -> str:
        return f"{token.searches_30d:,}"

    @admin.display(description="runs out")
    def runs_out(self, token: ApiToken) -> str:
        return _runs_out(token, timezone.now())

    @admin.display(description="expires", ordering="expires_at")
    def expires(self, token: ApiToken) -> str:
        return f"{token.expires_at:%Y-%m-%d}"

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[TokenList]:
        return TokenList

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        response = super().changelist_view(request, extra_context)
        context = getattr(response, "context_data", None) or {}
        if "cl" in context and context["cl"].sifts_some:
            context["subtitle"] = f"Among the newest {sifting.MAX_SIFTED:,} tokens; #id finds every one."
        return response

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[ApiToken], search_term: str
    ) -> tuple[QuerySet[ApiToken], bool]:
        """`#12` is the token of that id; `12` may stand in a text too."""
        asked = asked_id(search_term)
        if asked is not None and search_term.strip().startswith("#"):
            return queryset.filter(pk=asked), False
        found, duplicates = super().get_search_results(request, queryset, search_term)
        return (found if asked is None else found | queryset.filter(pk=asked)), duplicates

    # --- The token's page ----------------------------------------------------------------------------------------

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tokens are revoked, never deleted: their ledger stays."""
        return False

    def save_model(self, request: HttpRequest, obj: ApiToken, form: forms.ModelForm, change: bool) -> None:
        """Only what was edited: writing every column would take back what searches have charged meanwhile."""
        if not change:  # Django's "save as new" must not pass by `tokens.issue`
            raise PermissionDenied
        obj.save(update_fields=form.changed_data)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, obj: ApiToken, **kwargs: Any
    ) -> HttpResponse:
        now = timezone.now()
        token = activity.with_activity(ApiToken.objects.all(), now).get(pk=obj.pk)
        buttons = [
            {
                "title": action.title,
                "variant": action.variant,
                "url": _address(slug, obj.pk),
            }
            for slug, action in ACTIONS.items()
            if request.user.has_perm(action.permission) and (action.of_revoked or token.revoked_at is None)
        ]
        days = [now.astimezone(UTC).date() - timedelta(days=back) for back in reversed(range(CHART_DAYS))]
        by_day = activity.by_day(token, days[0])
        context |= {
            "show_save_and_add_another": False,
            "token": token,
            "shown_state": shown_state(token),
            "runs_out": _runs_out(token, now),
            "buttons": buttons,
            "chart": requests_chart([(day, by_day.get(day, {})) for day in days], label="%b %d", by="day"),
            "entries": token.entries.order_by("-created_at", "-pk")[:NEWEST_ENTRIES],
        }
        return super().render_change_form(request, context, *args, obj=obj, **kwargs)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.action_view)
        bulk = self.admin_site.admin_view(self.top_up_selected_view)
        pages = [
            path(f"<int:token_id>/{slug}/", view, {"action": action}, name=_page_name(slug))
            for slug, action in ACTIONS.items()
        ]
        return [path("top-up/", bulk, name=_page_name("top-up-selected")), *pages, *super().get_urls()]

    # --- Issue, top up, adjust, rotate, revoke -------------------------------------------------------------------

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Issue a token. The answer to the POST shows it, this once."""
        if not self.has_add_permission(request):
            raise PermissionDenied

        def act(data: dict[str, Any]) -> HttpResponse:
            return self._shown_once(request, self._issue(request, data), title="Token issued")

        form = IssueForm(request.POST if request.method == "POST" else None)
        return self.ask(
            request,
            form,
            act,
            title="Issue a token",
            button="Issue",
            explanation="The token is shown once, in the answer to this page. Only its id is stored.",
        )

    def _issue(self, request: HttpRequest, data: dict[str, Any]) -> tokens.Issued:
        reference = data["once"].hex
        earlier = CreditEntry.objects.filter(kind=CreditEntry.Kind.ISSUE, reference=reference)
        _require_allowance(request, data["initial_credits"], earlier)
        try:
            issued = tokens.issue(
                name=data["name"],
                initial_credits=data["initial_credits"],
                days=data["days"],
                actor=request.user.get_username(),
                reason=data["reason"],
                reference=reference,
                note=data["note"],
                contact=data["contact"],
                low_balance_at=data["low_balance_at"],
            )
        except tokens.AlreadyIssued as error:
            raise ValidationError(
                f"This page has issued token #{error.token_id} already, and its answer showed it. If that answer was "
                "lost, rotate that token; for another one, open this page again."
            ) from error
        self.log_addition(
            request, issued.token, f"Issued: {data['initial_credits']} credits, {data['days']} days. {data['reason']}"
        )
        return issued

    def action_view(self, request: HttpRequest, token_id: int, action: Action) -> HttpResponse:
        if not (self.has_view_permission(request) and request.user.has_perm(action.permission)):
            raise PermissionDenied
        token = get_object_or_404(ApiToken, pk=token_id)

        def act(data: dict[str, Any]) -> HttpResponse:
            done = self._perform(request, action, token_id, data)
            if done.issued:
                return self._shown_once(request, done.issued, title="Token rotated")
            self.message_user(request, done.sentence, messages.SUCCESS if done.changed else messages.WARNING)
            return redirect("admin:accounts_apitoken_change", token_id)

        initial = {"expires_at": token.expires_at.isoformat()}
        form = action.form(request.POST if request.method == "POST" else None, initial=initial)
        return self.ask(
            request,
            form,
            act,
            title=f"{action.title}: {token}",
            button=action.title,
            variant=action.variant if action.variant == "danger" else "primary",
            explanation=action.explanation,
            token=token,
            shown_state=shown_state(token),
            original=token,
        )

    def _perform(self, request: HttpRequest, action: Action, token_id: int, data: dict[str, Any]) -> Done:
        """Within a transaction."""
        if "amount" in data:
            booked = CreditEntry.objects.filter(token_id=token_id, reference=data["reference"])
            _require_allowance(request, data["amount"], booked)
        locked = ApiToken.objects.select_for_update().get(pk=token_id)
        done = action.perform(locked, {**data, "actor": request.user.get_username()})
        if done.changed:
            self.log_change(request, locked, done.sentence)
        return done

    def _shown_once(self, request: HttpRequest, issued: tokens.Issued, *, title: str) -> HttpResponse:
        body = json.dumps({"api_key": issued.api_key, "query": EXAMPLE_NUMBER})
        url = request.build_absolute_uri(reverse("search"))
        curl = f"curl -s {url} -H 'Content-Type: application/json' -d '{body}'"
        token = issued.token
        return self.page(
            request, "shown_once.html", title=title, token=token, original=token, api_key=issued.api_key, curl=curl
        )

    # --- Top up many ---------------------------------------------------------------------------------------------

    def has_top_up_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request) and request.user.has_perm(TOP_UP)

    @admin.action(description="Top up the selected tokens", permissions=["top_up"])
    def top_up_selected(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> HttpResponse | None:
        """Asks; what is sent then comes to a page of its own."""
        ids = sorted(queryset.values_list("pk", flat=True)[: MAX_AT_ONCE + 1])
        if len(ids) > MAX_AT_ONCE:
            self.message_user(request, f"At most {MAX_AT_ONCE} tokens are topped up at once.", messages.ERROR)
            return None
        form = BulkForm(initial={"tokens": ",".join(map(str, ids))})
        return self._bulk_page(request, form, ApiToken.objects.in_bulk(ids))

    def top_up_selected_view(self, request: HttpRequest) -> HttpResponse:
        """Each token in a transaction of its own (see credits.move): what could not be booked is sent again."""
        if not self.has_top_up_permission(request):
            raise PermissionDenied
        form = BulkForm(request.POST)
        form.is_valid()
        rows = ApiToken.objects.in_bulk(form.cleaned_data.get("tokens", ()))
        if not rows:  # a GET, or no page of ours
            return redirect("admin:accounts_apitoken_changelist")
        if form.errors:
            return self._bulk_page(request, form, rows)
        data = form.cleaned_data
        before = CreditEntry.objects.filter(token__in=rows, reference=data["reference"])
        booked = set(before.values_list("token_id", flat=True))
        revoked = {pk for pk, token in rows.items() if token.revoked_at is not None} - booked
        try:
            with transaction.atomic():
                require_allowance(request, data["amount"] * len(rows.keys() - booked - revoked))
        except ValidationError as error:
            form.add_error(None, error)
            return self._bulk_page(request, form, rows)
        done = {pk: self._top_up_one(request, pk, data) for pk in sorted(rows.keys() - revoked)}
        outcomes = {pk: sentence for pk, (_, sentence) in done.items()} | dict.fromkeys(revoked, "Skipped: revoked.")
        missing = sum(not booked for booked, _ in done.values())
        if missing:
            form.add_error(
                None, f"{missing} of {len(rows)} tokens were not topped up. Sending this page again books them alone."
            )
        return self._bulk_page(request, form if missing else None, ApiToken.objects.in_bulk(rows), outcomes)

    def _top_up_one(self, request: HttpRequest, token_id: int, data: dict[str, Any]) -> tuple[bool, str]:
        """Whether it is booked, now or before, and what to say of it."""
        try:
            with transaction.atomic():
                return True, self._perform(request, ACTIONS["top-up"], token_id, data).sentence
        except ValidationError as error:
            return False, f"Not booked: {' '.join(error.messages)}"
        except ValueError as error:
            return False, f"Not booked: {error}"
        except DatabaseError as error:  # its text may hold what was typed
            log.warning("top-up not booked: token=%d %s", token_id, type(error).__name__)
            return False, "Not booked: the database did not take it."

    def _bulk_page(
        self,
        request: HttpRequest,
        form: BulkForm | None,
        rows: dict[int, ApiToken],
        outcomes: dict[int, str] | None = None,
    ) -> HttpResponse:
        """`outcomes`: what became of each, once it was sent."""
        will = {pk: "Top up" if token.revoked_at is None else "Skip: it is revoked." for pk, token in rows.items()}
        return self.page(
            request,
            "top_up_selected.html",
            title="Top up the selected tokens",
            button="Send again" if outcomes else "Top up",
            explanation="" if outcomes else "Adds the amount to each of them. Sent twice, this page adds it once.",
            form=form,
            form_url=_address("top-up-selected"),
            refused="Not all were topped up." if outcomes else "",
            sent=outcomes is not None,
            rows=[
                {"token": token, "state": shown_state(token), "outcome": (outcomes or will)[pk]}
                for pk, token in sorted(rows.items())
            ],
        )
