"""The console's history: what operators and commands did (Django's LogEntry)."""

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest

from accounts.admin.base import TokenRefusingAdmin
from core.admin import ReadOnlyAdmin, column, html_link
from core.history import Action

LogEntry._meta.verbose_name, LogEntry._meta.verbose_name_plural = "history entry", "history"

_ACTIONS = dict(Action.choices)


@admin.register(LogEntry)
class HistoryAdmin(ReadOnlyAdmin, TokenRefusingAdmin):
    list_display = ("when", "user", "action", "target", "message")
    fields = ("when", "user", "action", "target_type", "target", "message")
    list_select_related = ("user", "content_type")
    counted = "entries"
    sortable_by = ("when",)
    search_fields = ("user",)
    search_help_text = "Search by user"
    ordering = ("-pk",)

    def get_search_results(self, request: HttpRequest, queryset: QuerySet, search_term: str) -> tuple[QuerySet, bool]:
        """Select the users first: they are few, and the index by user then finds their entries."""
        if term := search_term.strip():
            users = User.objects.filter(username__icontains=term).values_list("pk", flat=True)
            queryset = queryset.filter(user__in=list(users))
        return queryset, False

    when = column(lambda entry: f"{entry.action_time:%Y-%m-%d %H:%M:%S}", "when (UTC)", "pk")
    action = column(lambda entry: _ACTIONS.get(entry.action_flag, "-"), "action")
    target_type = column(lambda entry: entry.content_type.name if entry.content_type else "-", "type")
    message = column(lambda entry: entry.get_change_message() or "-", "what changed, and why")

    @admin.display(description="object")
    def target(self, entry: LogEntry) -> str:
        url = None if entry.is_deletion() else entry.get_admin_url()
        name, kind = entry.object_repr, entry.content_type.name if entry.content_type else ""
        if not name.lower().startswith(kind):
            name = f"{kind} {name}"
        if not url or not entry.object_id:  # deleted or erased
            return name
        return html_link(url, name)
