"""The Alerts page: which conditions are open, which have ended, what was sent about each, and a test alert."""

from datetime import timedelta
from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.html import format_html
from unfold.dataclasses import UnfoldAction
from unfold.enums import ActionVariant
from unfold.utils import display_for_label
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget, UnfoldBooleanWidget

from accounts.admin.top_ups import TOP_UP
from accounts.models import ApiToken
from contrib.alerts import alert_list, alert_recipients, checking, incidents, mutes
from contrib.alerts.admin.notices import event_text, state_label
from contrib.alerts.group_titles import kind_title
from contrib.alerts.models import Incident
from core import history, periods
from core.admin import (
    ConditionFilter,
    IndexedChangeList,
    LargeTableAdmin,
    ReadOnlyAdmin,
    Unchanged,
    form_action,
)
from core.bidi import isolated, isolated_title
from core.cells import column, folded
from core.forms import TextField
from monitoring import task_runs
from monitoring.health.registry import CRITICAL

#: Notices on the page of an alert, the newest first: one for each address and webhook when it opens, for each reminder,
#: and when it closes.
MAX_NOTICES = 200
#: State or severity → unfold's type of its label.
LABELS = {
    "open": "danger",
    "acknowledged": "default",
    "resolved": "success",
    "ended": "default",
    "critical": "danger",
    "warning": "warning",
}
MUTE_HOURS = (("1", "1 hour"), ("8", "8 hours"), ("24", "1 day"), ("168", "7 days"))
VIEW, HANDLE = "alerts.view_incident", "alerts.handle_incident"


class ReasonForm(forms.Form):
    reason = TextField(
        max_length=200,
        required=False,
        widget=UnfoldAdminTextInputWidget,
        help_text="Shown with the alert.",
    )


class MuteForm(ReasonForm):
    hours = forms.ChoiceField(label="Duration", choices=MUTE_HOURS, widget=UnfoldAdminSelectWidget)
    all_of_kind = forms.BooleanField(
        required=False,
        widget=UnfoldBooleanWidget,
        help_text="Otherwise only those about the same subject, such as one source or token.",
    )
    field_order = ("hours", "all_of_kind", "reason")

    def __init__(self, *args: Any, kind: str, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["all_of_kind"].label = f'All alerts of the kind "{kind_title(kind)}"'


class EndMuteForm(forms.Form):
    mute = forms.ModelChoiceField(mutes.titled(), empty_label="Select a mute", widget=UnfoldAdminSelectWidget)


class StateFilter(ConditionFilter):
    title = parameter_name = "state"
    conditions = {
        "open": ("open", Q(closed_at=None)),
        "acknowledged": ("acknowledged", Q(closed_at=None, acknowledged_at__isnull=False)),
        "resolved": ("resolved", Q(closed_at__isnull=False, ended_because="")),
        "ended": ("ended for another reason", Q(closed_at__isnull=False) & ~Q(ended_because="")),
    }


class SeverityFilter(ConditionFilter):
    title = parameter_name = "severity"
    conditions = {
        "critical": ("critical", Q(kind__in=CRITICAL)),
        "warning": ("warning", ~Q(kind__in=CRITICAL)),
    }


class KindFilter(ConditionFilter):
    title = parameter_name = "kind"

    @cached_property
    def conditions(self) -> dict[str, tuple[str, Q]]:
        kinds = Incident.objects.order_by("kind").values_list("kind", flat=True).distinct()
        return {kind: (kind_title(kind), Q(kind=kind)) for kind in kinds}


def _state(incident: Incident) -> str:
    """As a label; after it, why it ended if its condition may still hold."""
    if incident.closed_at and incident.ended_because:
        return format_html("{} <small>{}</small>", display_for_label("ended", "-", LABELS), incident.ended_because)
    state = "resolved" if incident.closed_at else "acknowledged" if incident.acknowledged_at else "open"
    return display_for_label(state, "-", LABELS)


def related_pages(request: HttpRequest, incident: Incident) -> list[tuple[str, object]]:
    """URL and name of each page that shows more about the incident, or does what its hint says, and that the user may
    view. One statement at most."""
    area, subject = incident.kind.partition(".")[0], incident.subject
    if area == "token" and request.user.has_perm("accounts.view_apitoken"):
        token = ApiToken.objects.select_related("customer").filter(pk=subject).first() if subject.isdigit() else None
        if token is None:
            return [(reverse("admin:accounts_apitoken_changelist"), "API tokens")]
        name = (
            format_html("{} of <bdi>{}</bdi>", isolated(token), token.customer.name) if token.customer else str(token)
        )
        pages: list[tuple[str, object]] = [(reverse("admin:accounts_apitoken_change", args=[token.pk]), name)]
        if incident.kind != "token.expiring" and token.revoked_at is None and request.user.has_perm(TOP_UP):
            pages.append((reverse("admin:accounts_apitoken_top_up", args=[token.pk]), "Top up"))
        return pages
    if area == "source" and request.user.has_perm("monitoring.view_source"):
        return [(reverse("admin:monitoring_source_change", args=[subject]), f"Source {subject}")]
    if area in ("searches", "data", "address_book") and request.user.has_perm("monitoring.view_source"):
        return [(reverse("admin:monitoring_source_changelist"), "Sources")]
    return []


def checked() -> dict[str, Any]:
    """Whether alerts are on, and when their conditions were last checked. Two statements at most."""
    at = task_runs.succeeded_at(checking.TASK)
    alerts_on, overdue = alert_recipients.alerts_are_on(), checking.is_overdue(at, timezone.now())
    return {
        "alerts_on": alerts_on,
        "alerts_checked_at": at,
        "alerts_overdue": overdue,
        "alerts_current": alerts_on and not overdue,
    }


def _with_reason(what: str, reason: str) -> str:
    return f"{what} Reason: {reason}" if reason else what


class OpenFirst(IndexedChangeList):
    """Lists open alerts first, the most urgent ones before the others: they are few (token_checks.MAX_TOKENS). The
    others are read by their index, newest first."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        found = list(self.queryset.filter(closed_at=None).order_by("-opened_at", "-pk"))
        mutes.set_muted_until(found, timezone.now())
        self.is_newest_first = self.is_newest_first and not found
        start = (self.page_num - 1) * self.list_per_page
        end = min(start + self.list_per_page, self.result_count)
        first, last = (max(0, at - len(found)) for at in (start, end))
        resolved = self.queryset.filter(closed_at__isnull=False)[first:last]
        self.result_list = [*alert_list.most_urgent_first(found)[start:end], *resolved]


@admin.register(Incident)
class IncidentAdmin(ReadOnlyAdmin, LargeTableAdmin):
    list_display = ("alert", "severity_label", "state", "handled", "since")
    changelist_class, list_max_show_all = OpenFirst, 0
    list_before_template = "admin/alerts/incident/checked.html"
    list_filter = (StateFilter, SeverityFilter, KindFilter)
    lookups_allowed = ("state", "severity", "kind")
    actions = ("acknowledge_selected",)
    actions_list = ("send_test", "end_mute")
    actions_detail = ("acknowledge", "withdraw_acknowledgement", "mute")
    ordering = ("-pk",)
    sortable_by = ()
    fields = (
        *("alert", "kind_name", "severity_label", "state", "acknowledged"),
        *("summary", "what_to_do", "since", "until"),
    )

    alert = column(lambda incident: isolated_title(incident.title), "alert")
    handled = column(lambda incident: incident.handling or "-", "handled")
    # Not by unfold's decorator, which has no effect on the page of an alert.
    severity_label = column(lambda incident: display_for_label(incident.severity, "-", LABELS), "severity")
    state = column(_state, "state")
    kind_name = column(lambda incident: f"{kind_title(incident.kind)} ({incident.kind})", "kind")
    what_to_do = column(lambda incident: incident.hint or "-", "what to do")
    since = column(lambda incident: f"{incident.first_seen_at:%Y-%m-%d %H:%M}", "since (UTC)")
    until = column(
        lambda incident: f"{incident.closed_at:%Y-%m-%d %H:%M}" if incident.closed_at else "-", "until (UTC)"
    )

    @admin.display(description="acknowledged")
    def acknowledged(self, incident: Incident) -> str:
        if incident.acknowledged_at is None:
            return "-"
        text = f"by {incident.acknowledged_by} at {periods.shown(incident.acknowledged_at)}"
        return format_html("{}: {}", text, folded(incident.acknowledgement)) if incident.acknowledgement else text

    def get_queryset(self, request: HttpRequest) -> QuerySet[Incident]:
        """Without conditions that have not lasted long enough yet."""
        return super().get_queryset(request).filter(opened_at__isnull=False)

    def get_actions_list(self, request: HttpRequest) -> list[UnfoldAction]:
        """The list has a link for each mute instead of a button to end one."""
        permitted = super().get_actions_list(request) if alert_recipients.alerts_are_on() else []
        return [each for each in permitted if each.path != "end-mute"]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        context = {"mutes": mutes.in_effect(), "can_end_mutes": request.user.has_perm(HANDLE)}
        return super().changelist_view(request, {**checked(), **context, **(extra_context or {})})

    def page_context(self, request: HttpRequest, obj: Incident) -> dict[str, Any]:
        can_view_notices = request.user.has_perm("alerts.view_notice")
        notices = incidents.notices_about(obj).order_by("-pk")[:MAX_NOTICES] if can_view_notices else []
        return {
            "related": related_pages(request, obj),
            **checked(),
            "mutes": () if obj.closed_at else mutes.about(obj),
            "has_buttons": True,
            "can_end_mutes": request.user.has_perm(HANDLE),
            "can_view_notices": can_view_notices,
            "notices": [
                {"notice": notice, "event": event_text(notice), "state": state_label(notice)} for notice in notices
            ],
        }

    def offers(self, request: HttpRequest, url_path: str, obj: Incident) -> bool:
        if url_path == "mute":
            return obj.closed_at is None and not mutes.about(obj).exists()
        return obj.closed_at is None and (obj.acknowledged_at is None) == (url_path == "acknowledge")

    @form_action(
        "Acknowledge",
        VIEW,
        HANDLE,
        form=ReasonForm,
        explanation="Shows others that you are looking after this alert, and stops its reminders.",
        variant=ActionVariant.PRIMARY,
    )
    def acknowledge(self, request: HttpRequest, obj: Incident, data: dict[str, Any]) -> str:
        incidents.acknowledge(incident=obj, by=request.user.get_username(), reason=data["reason"])
        self.log_change(request, obj, _with_reason("Acknowledged.", data["reason"]))
        return "Acknowledged."

    def has_handle_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perms((VIEW, HANDLE))

    @admin.action(description="Acknowledge", permissions=["handle"])
    def acknowledge_selected(self, request: HttpRequest, selected: QuerySet[Incident]) -> None:
        done = skipped = 0
        for incident in selected:
            try:
                with transaction.atomic():
                    incidents.acknowledge(incident=incident, by=request.user.get_username())
                    self.log_change(request, incident, "Acknowledged.")
            except ValueError:
                skipped += 1
            else:
                done += 1
        text = f"Acknowledged: {done}."
        if skipped:
            text += f" Skipped, because they have ended or are acknowledged already: {skipped}."
        self.message_user(request, text, messages.SUCCESS if done else messages.WARNING)

    @form_action("Withdraw acknowledgement", VIEW, HANDLE)
    def withdraw_acknowledgement(self, request: HttpRequest, obj: Incident, data: dict[str, Any]) -> str:
        incidents.withdraw_acknowledgement(obj)
        self.log_change(request, obj, "Acknowledgement withdrawn.")
        return "Acknowledgement withdrawn."

    @form_action(
        "Mute",
        VIEW,
        HANDLE,
        form=MuteForm,
        explanation=(
            "While it is muted, no notices are sent, except when an alert that was already reported ends. "
            "Alerts that open meanwhile, and are still open when the mute ends, are reported then."
        ),
    )
    def mute(self, request: HttpRequest, obj: Incident, data: dict[str, Any]) -> str:
        until = timezone.now() + timedelta(hours=int(data["hours"]))
        subject, what = obj.subject, "Muted"
        if data["all_of_kind"]:
            subject, what = "", f'All alerts of the kind "{kind_title(obj.kind)}" are muted'
        mutes.mute(kind=obj.kind, subject=subject, until=until, by=request.user.get_username(), reason=data["reason"])
        result = f"{what} until {periods.shown(until)}."
        self.log_change(request, obj, _with_reason(result, data["reason"]))
        return result

    def action_context(self, request: HttpRequest, url_path: str, obj: Incident | None) -> dict[str, Any]:
        if url_path == "mute" and obj:
            return {"form_options": {"kind": obj.kind}}
        if url_path != "end-mute":
            return {}
        found = list(mutes.titled().values_list("pk", flat=True)[:2])
        only = found[0] if len(found) == 1 else None
        return {"initial": {"mute": request.GET.get("mute", only)}}

    @form_action("End mute", VIEW, HANDLE, form=EndMuteForm)
    def end_mute(self, request: HttpRequest, obj: None, data: dict[str, Any]) -> str:
        mute = data["mute"]
        history.record(
            action=history.Action.CHANGE,
            message="Mute ended.",
            model=Incident,
            name=str(mute),
            user=cast(User, request.user),
        )
        mute.delete()
        return f"Mute ended: {mute}."

    @form_action(
        "Send test alert",
        VIEW,
        "alerts.change_notice",
        explanation="Queues a test alert for each address and webhook that receives alerts.",
    )
    def send_test(self, request: HttpRequest, obj: None, data: dict[str, Any]) -> str:
        if not alert_recipients.alerts_are_on():
            return Unchanged("Alerts are off.")
        for notice in incidents.write_test_alert():
            self.log_addition(request, notice, "Test alert queued.")
        return "Test alert queued: it is sent within a minute. Notices shows the result."
