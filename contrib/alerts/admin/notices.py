"""The notices: which were sent, which are pending, and sending failed ones again."""

import json
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.html import format_html

from accounts.admin.base_classes import TokenRowsAdmin
from contrib.alerts import alert_emails, notices
from contrib.alerts.models import Notice
from core.bidi import isolated_title
from core.cells import change_link, column, failed


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


def state_label(notice: Notice) -> str:
    """`notice_state`, in the colour of failures if the last attempt failed."""
    has_failed = notice.outcome == notices.GIVEN_UP or notice.outcome.startswith("failed")
    text = notice_state(notice)
    return failed(text) if notice.sent_at is None and has_failed else text


def event_text(notice: Notice) -> str:
    """`Alert resolved`, or `Alert ended: the source is paused`."""
    because = alert_emails.ended_because(json.loads(notice.payload).get("data", {}))
    return f"Alert ended: {because}" if because else notice.get_event_display()


@admin.register(Notice)
class NoticeAdmin(TokenRowsAdmin):
    list_display = ("when", "about", "channel_name", "recipient", "state")
    list_before_template = "admin/alerts/notice/off.html"
    list_select_related = ("token", "incident")
    ordering = ("-pk",)
    lookups_allowed = ("token__id__exact",)
    actions = ("send_selected_again",)

    def get_fields(self, request: HttpRequest, obj: Notice | None = None) -> tuple[str, ...]:
        about = ("token_link", "threshold_credits", "balance_credits")
        others = ("state", "channel_name", "recipient", "when", "attempts", "last_failure")
        return (*about, *others) if obj and obj.token_id else ("about", *others, "content")

    def has_send_again_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perms(["alerts.view_notice", "alerts.change_notice"])

    threshold_credits = column(lambda notice: f"{notice.threshold:,}", "threshold")
    balance_credits = column(lambda notice: f"{notice.balance:,}", "balance at that time")
    channel_name = column(lambda notice: notice.get_channel_display(), "channel")
    recipient = column(lambda notice: notice.target or "the token's contacts", "recipient")

    @admin.display(description="about")
    def about(self, notice: Notice) -> str:
        if notice.event == Notice.Event.BALANCE_LOW:
            token = notice.token or f"API token #{json.loads(notice.payload)['data']['token_id']}"
            return f"Low balance: {token}"
        if notice.incident is None:
            return notice.get_event_display()
        data = json.loads(notice.payload).get("data", {})
        because, others = alert_emails.ended_because(data), data.get("count", 1) - 1
        what = f"ended: {because}" if because else notice.event.partition(".")[2]
        title = f"{notice.incident.title} and {others:,} more" if others else notice.incident.title
        text = format_html("{} ({})", isolated_title(title), what)
        return change_link("alerts_incident", notice.incident.pk, text)

    @admin.display(description="message")
    def content(self, notice: Notice) -> str:
        text = json.dumps(json.loads(notice.payload), indent=2, ensure_ascii=False)
        if notice.channel == Notice.Channel.EMAIL and notice.event != Notice.Event.BALANCE_LOW:
            with suppress(KeyError):  # an earlier release may have written less
                email = alert_emails.message(notice)
                text = f"Subject: {email.subject}\n\n{email.body}"
        return format_html('<pre class="notice-message">{}</pre>', text)

    state = column(state_label, "state")

    def last_failure(self, notice: Notice) -> str:
        return notice.outcome.removeprefix("failed: ") if notice.outcome.startswith("failed") else "-"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().changelist_view(request, {"off": not settings.LOW_BALANCE_NOTICES, **(extra_context or {})})

    def page_context(self, request: HttpRequest, obj: Notice) -> dict[str, Any]:
        return {"title": "Notice"}

    @admin.action(description="Send again", permissions=["send_again"])
    def send_selected_again(self, request: HttpRequest, selected: QuerySet[Notice]) -> None:
        with transaction.atomic():
            again = notices.send_again(selected)
            for notice in again:
                self.log_change(request, notice, "Queued to be sent again.")
        if again:
            self.message_user(request, f"Queued to be sent again: {len(again)}.", messages.SUCCESS)
        else:
            self.message_user(request, "Only failed notices can be sent again.", messages.WARNING)
