"""The console's history: what operators and commands did (Django's LogEntry)."""

import re
from datetime import timedelta

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from accounts.admin.base import NewestRowsList, TokenRefusingAdmin
from accounts.models import ApiToken, CreditEntry, Customer
from core.admin import ConditionFilter, ReadOnlyAdmin, column, html_link
from core.history import Action
from core.numbers import formatted
from lookup.models import SourcePause
from monitoring.models import AlertRecipient, Incident, Notice
from phonebook.models import ComplaintDay, Contact, ImportBatch, NumberRule

LogEntry._meta.verbose_name, LogEntry._meta.verbose_name_plural = "history entry", "history"

_ACTIONS = dict(Action.choices)
#: What entries are about.
_OBJECTS: tuple[type[Model], ...] = (
    *(ApiToken, Customer, CreditEntry, SourcePause, Notice, NumberRule, Contact, ComplaintDay, ImportBatch),
    *(Incident, AlertRecipient, User, Group),
)
#: Their entries begin with the digits of a number.
_NUMBERED = {model._meta.model_name for model in (NumberRule, Contact, ComplaintDay)}
_NUMBER = re.compile(r"^[1-9][0-9]{6,14}(?= |$)")


class ObjectFilter(ConditionFilter):
    title = parameter_name = "object"

    @property
    def conditions(self) -> dict[str, tuple[str, Q]]:
        return {
            str(meta.model_name): (
                str(meta.verbose_name_plural),
                Q(content_type__app_label=meta.app_label, content_type__model=meta.model_name),
            )
            for meta in (model._meta for model in _OBJECTS)
        }


class ActionFilter(ConditionFilter):
    title = parameter_name = "action"
    conditions = {name: (name, Q(action_flag=flag)) for flag, name in Action.choices}


class TimeFilter(ConditionFilter):
    title = parameter_name = "time"

    @property
    def conditions(self) -> dict[str, tuple[str, Q]]:
        now = timezone.now()
        return {
            str(days): (title, Q(action_time__gte=now - timedelta(days=days)))
            for days, title in ((1, "last 24 hours"), (7, "last 7 days"), (30, "last 30 days"), (365, "last 365 days"))
        }


class HistoryList(NewestRowsList):
    """No index serves the filters. The search by user has one."""

    limit = "entries; the search by user covers all"

    def identified(self) -> Q:
        return Q(user__username__icontains=self.query) if self.query else Q(pk__in=())

    def with_figures(self) -> QuerySet[LogEntry]:
        return LogEntry.objects.select_related("user", "content_type")


@admin.register(LogEntry)
class HistoryAdmin(ReadOnlyAdmin, TokenRefusingAdmin):
    list_display = ("when", "user", "action", "target", "message")
    fields = ("when", "user", "action", "target_type", "target", "message")
    list_filter = (ObjectFilter, ActionFilter, TimeFilter)
    lookups_allowed = ("object", "action", "time")
    changelist_class = HistoryList
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
        kind = entry.content_type.name if entry.content_type else ""
        is_of_number = entry.content_type and entry.content_type.model in _NUMBERED
        name = _NUMBER.sub(lambda found: formatted(found[0]), entry.object_repr) if is_of_number else entry.object_repr
        if not name.lower().startswith(kind):
            name = f"{kind} {name}"
        if not url or not entry.object_id:  # deleted or erased
            return name
        return html_link(url, name)
