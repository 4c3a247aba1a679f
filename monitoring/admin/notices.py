"""The notices: which were sent, which are pending, and sending failed ones again."""

import json
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.html import format_html

from accounts.admin.base import TokenRowsAdmin
from core.admin import Unchanged, change_link, column, form_action, level_of
from monitoring import notices
from monitoring.models import Notice


def notice_state(notice: Notice) -> str:
    """What happened to the notice, and what happens next."""
    attempts = f"{notice.attempts} attempt{'' if notice.attempts == 1 else 's'}"
    if notice.sent_at is not None:
        return f"Sent {notice.sent_at:%Y-%m-%d %H:%M:%S} UTC"
    if notice.due_at is None:
        return f"Given up after {attempts}" if notice.outcome == notices.GIVEN_UP else "No longer needed"
    waits = notice.due_at > timezone.now()
    if notice.outcome == notices.SENDING and waits:
        return "Sending"
    due = f"{notice.due_at:%Y-%m-%d %H:%M:%S} UTC" if waits else "now"
    if notice.attempts:
        return f"Failed after {attempts}, next attempt {due}"
    return f"Queued until {due}" if waits else "Queued"


@admin.register(Notice)
class NoticeAdmin(TokenRowsAdmin):
    list_display = ("when", "about", "channel_name", "recipient", "state")
    list_before_template = "admin/monitoring/notice/off.html"
    list_select_related = ("token", "incident")
    ordering = ("-pk",)
    lookups_allowed = ("token__id__exact",)
    actions = ("send_selected_again",)
    actions_detail = ("send_again",)

    def get_fields(self, request: HttpRequest, obj: Notice | None = None) -> tuple[str, ...]:
        about = ("token_link", "threshold_credits", "balance_credits") if obj and obj.token_id else ("alert", "content")
        return (*about, "channel_name", "recipient", "when", "state", "attempts", "last_failure")

    def has_send_again_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perms(["monitoring.view_notice", "monitoring.change_notice"])

    threshold_credits = column(lambda notice: f"{notice.threshold:,}", "threshold")
    balance_credits = column(lambda notice: f"{notice.balance:,}", "balance at that time")
    channel_name = column(lambda notice: notice.get_channel_display(), "channel")
    recipient = column(lambda notice: notice.target or "the token's contacts", "recipient")

    @admin.display(description="about")
    def about(self, notice: Notice) -> str:
        if notice.event == Notice.Event.BALANCE_LOW:
            token = notice.token or f"API token #{json.loads(notice.payload)['data']['token_id']}"
            return f"Low balance: {token}"
        what = "resolved" if notice.event == Notice.Event.INCIDENT_RESOLVED else "opened"
        return f"{notice.incident.title} ({what})" if notice.incident is not None else notice.get_event_display()

    @admin.display(description="about")
    def alert(self, notice: Notice) -> str:
        """Like `about`, with a link. Whoever may view notices may view alerts, unless an operator changed the roles."""
        about = self.about(notice)
        return change_link("monitoring_incident", notice.incident_id, about) if notice.incident_id else about

    @admin.display(description="message")
    def content(self, notice: Notice) -> str:
        text = json.dumps(json.loads(notice.payload), indent=2, ensure_ascii=False)
        return format_html('<pre class="notice-message">{}</pre>', text)

    state = column(notice_state, "state")

    def last_failure(self, notice: Notice) -> str:
        return notice.outcome.removeprefix("failed: ") if notice.outcome.startswith("failed") else "-"

    def offers(self, request: HttpRequest, url_path: str, obj: Notice) -> bool:
        return Notice.objects.filter(notices.FAILED, pk=obj.pk).exists()

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().changelist_view(
            request, {"off": not (settings.LOW_BALANCE_NOTICES or settings.ALERTS), **(extra_context or {})}
        )

    def page_context(self, request: HttpRequest, obj: Notice) -> dict[str, Any]:
        return {"title": "Notice", "off": obj.token_id is not None and not settings.LOW_BALANCE_NOTICES}

    @form_action("Send again", "send_again", explanation="send_notices sends it within a minute.")
    def send_again(self, request: HttpRequest, obj: Notice, data: dict[str, Any]) -> str:
        return self._send_again(request, Notice.objects.filter(pk=obj.pk))

    @admin.action(description="Send again", permissions=["send_again"])
    def send_selected_again(self, request: HttpRequest, selected: QuerySet[Notice]) -> None:
        failed = selected.filter(notices.FAILED).values_list("pk", flat=True)
        message = self._send_again(request, Notice.objects.filter(pk__in=list(failed)))
        self.message_user(request, message, level_of(message))

    def _send_again(self, request: HttpRequest, selected: QuerySet[Notice]) -> str:
        with transaction.atomic():
            again = notices.send_again(selected)
            for notice in again:
                self.log_change(request, notice, "Queued to be sent again.")
        text = f"Queued to be sent again: {len(again)}."
        return text if again else Unchanged("Only failed notices can be sent again.")
