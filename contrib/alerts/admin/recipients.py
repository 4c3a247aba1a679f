"""The Alert recipients page: the addresses that get alerts beside those of the settings."""

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponse

from contrib.alerts import alert_recipients
from contrib.alerts.models import AlertRecipient
from core.admin import LargeTableAdmin
from core.cells import column, folded


@admin.register(AlertRecipient)
class AlertRecipientAdmin(LargeTableAdmin):
    list_display = ("email", "severities", "is_active", "note_text")
    list_before_template = "admin/alerts/alertrecipient/environment.html"
    ordering = ("email",)
    sortable_by = ()
    fields = ("email", "severities", "is_active", "note")
    history_fields = ("severities", "is_active")
    list_after_save = True
    note_text = column(lambda row: folded(row.note) or "-", "note")

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        webhooks = [f"Webhook {label}" for _, label in alert_recipients.webhook_targets()]
        context = {
            "from_environment": [*settings.ALERT_EMAILS, *webhooks],
            "has_mail_server": settings.EMAIL_IS_CONFIGURED,
        }
        return super().changelist_view(request, {**context, **(extra_context or {})})
