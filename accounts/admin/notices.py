"""The outbox of low-balance notices: what was sent, what waits, and what is to be tried again."""

from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import get_object_or_404, redirect
from django.urls import URLPattern, path
from django.utils import timezone

from accounts import notices
from accounts.admin.base import TokenRowsAdmin
from accounts.models import Notice


@admin.register(Notice)
class NoticeAdmin(TokenRowsAdmin):
    list_display = ("account", "when", "threshold_credits", "balance_then", "state")
    list_before_template = "admin/accounts/notice/off.html"
    ordering = ("-pk",)
    lookups_allowed = ("token__id__exact",)
    fields = readonly_fields = (
        "token_link",
        "when",
        "threshold_credits",
        "balance_then",
        "state",
        "attempts",
        "last_failure",
    )
    actions = ("send_again",)

    def has_send_again_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perms(["accounts.view_notice", "accounts.change_notice"])

    # --- Columns and fields ---------------------------------------------------------------------------------------

    @admin.display(description="threshold")
    def threshold_credits(self, notice: Notice) -> str:
        return f"{notice.threshold:,}"

    @admin.display(description="balance then")
    def balance_then(self, notice: Notice) -> str:
        return f"{notice.balance:,}"

    @admin.display(description="state")
    def state(self, notice: Notice) -> str:
        return state(notice)

    @admin.display(description="last failure")
    def last_failure(self, notice: Notice) -> str:
        return notice.outcome.removeprefix("failed: ") if notice.outcome.startswith("failed") else "-"

    # --- Pages ----------------------------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.send_again_view)
        return [path("<int:notice_id>/send-again/", view, name="accounts_notice_send_again"), *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().changelist_view(request, {"title": "Notices", "off": _off(), **(extra_context or {})})

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        may = self.has_send_again_permission(request) and Notice.objects.filter(notices.FAILED, pk=_key(object_id))
        mine = {"title": "Notice", "off": _off(), "may_send_again": bool(may)}
        return super().change_view(request, object_id, form_url, {**mine, **(extra_context or {})})

    def send_again_view(self, request: HttpRequest, notice_id: int) -> HttpResponse:
        if not self.has_send_again_permission(request):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        notice = get_object_or_404(Notice, pk=notice_id)
        self._send_again(request, Notice.objects.filter(pk=notice.pk))
        return redirect("admin:accounts_notice_change", notice.pk)

    @admin.action(description="Send again", permissions=["send_again"])
    def send_again(self, request: HttpRequest, chosen: QuerySet[Notice]) -> None:
        failed = chosen.filter(notices.FAILED).values_list("pk", flat=True)
        self._send_again(request, Notice.objects.filter(pk__in=list(failed)))

    def _send_again(self, request: HttpRequest, chosen: QuerySet[Notice]) -> None:
        with transaction.atomic():
            again = notices.send_again(chosen)
            for notice in again:
                self.log_change(request, notice, "To be sent again.")
        if again:
            self.message_user(request, f"To be sent again: {len(again)}.", messages.SUCCESS)
        else:
            self.message_user(request, "Only what failed or was given up is sent again.", messages.WARNING)


def state(notice: Notice) -> str:
    """What became of it, and what comes next."""
    tries = f"{notice.attempts} time{'' if notice.attempts == 1 else 's'}"
    if notice.sent_at is not None:
        return f"Sent {notice.sent_at:%Y-%m-%d %H:%M:%S} UTC"
    if notice.due_at is None:
        return f"Given up, failed {tries}" if notice.outcome == notices.GIVEN_UP else "Not needed any more"
    waits = notice.due_at > timezone.now()
    if notice.outcome == notices.SENDING and waits:
        return "Being sent"
    due = f"{notice.due_at:%Y-%m-%d %H:%M:%S} UTC" if waits else "now"
    if notice.attempts:
        return f"Failed {tries}, next try {due}"
    return f"Waits until {due}" if waits else "Waits to be sent"


def _off() -> bool:
    return not settings.LOW_BALANCE_NOTICES


def _key(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
