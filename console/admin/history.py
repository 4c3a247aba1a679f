"""The console's history: what operators and commands did (Django's LogEntry)."""

import json
import re
from contextlib import suppress
from datetime import timedelta

from django.apps import apps
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import cached_property

from accounts.admin import search_text
from accounts.admin.base_classes import NewestRowsList, TokenRefusingAdmin
from accounts.models import ApiToken, CreditEntry, Customer
from core import numbers, periods
from core.addons import Addon
from core.admin import ConditionFilter, ReadOnlyAdmin
from core.cells import column, folded, html_link
from core.forms import country_code_help
from core.history import Action
from core.text_lookups import has_words
from lookup.models import SourcePause
from phonebook.models import ComplaintDay, Contact, ImportBatch, NumberRule

LogEntry._meta.verbose_name, LogEntry._meta.verbose_name_plural = "history entry", "history"

#: How many months back the filter by time offers months and quarters.
MONTHS = 12
_ACTIONS = dict(Action.choices)
#: What entries are about.
_OBJECTS: tuple[type[Model], ...] = (
    *(ApiToken, Customer, CreditEntry, SourcePause, NumberRule, Contact, ComplaintDay, ImportBatch, User, Group),
)
#: Their entries begin with the digits of a number.
_NUMBERED = {model._meta.model_name for model in (NumberRule, Contact, ComplaintDay)}
_NUMBER = re.compile(r"^[1-9][0-9]{6,14}(?= |$)")


def _of_addons() -> list[type[Model]]:
    """The models of add-ons that have pages."""
    configs = (each for each in apps.get_app_configs() if isinstance(each, Addon))
    return [model for each in configs for model in each.get_models() if admin.site.is_registered(model)]


class ObjectFilter(ConditionFilter):
    title = parameter_name = "object"

    @property
    def conditions(self) -> dict[str, tuple[str, Q]]:
        return {
            str(meta.model_name): (
                str(meta.verbose_name_plural),
                Q(content_type__app_label=meta.app_label, content_type__model=meta.model_name),
            )
            for meta in (model._meta for model in (*_OBJECTS, *_of_addons()))
        }


class AboutFilter(ConditionFilter):
    """One object, such as `accounts.apitoken.12`: its page links the list with this filter."""

    title = parameter_name = "about"

    @cached_property
    def condition(self) -> Q | None:
        """Of the object in the URL."""
        app_label, model, pk = [*(self.value() or "").split(".", 2), "", ""][:3]
        found = Q(content_type__app_label=app_label, content_type__model=model, object_id=pk)
        return found if pk and str(self.value()).isprintable() else None

    @cached_property
    def conditions(self) -> dict[str, tuple[str, Q]]:
        if self.condition is None:
            return {}
        entry = LogEntry.objects.select_related("content_type").filter(self.condition).order_by("pk").last()
        return {str(self.value()): (_named(entry) if entry else "no entries", self.condition)}


class ActionFilter(ConditionFilter):
    title = parameter_name = "action"
    conditions = {name: (name, Q(action_flag=flag)) for flag, name in Action.choices}


class TimeFilter(ConditionFilter):
    """Offers the months and quarters of MONTHS; a URL may have any."""

    title = parameter_name = "time"

    @property
    def conditions(self) -> dict[str, tuple[str, Q]]:
        now = timezone.now()
        calendars = periods.calendars(now - timedelta(days=30 * MONTHS), now)
        keys = [*(each.key for each in periods.LISTED), *(each.key for _, group in calendars for each in group)]
        found = filter(None, map(periods.listed, dict.fromkeys([*keys, str(self.value())])))
        return {
            period.key: (period.title, Q(action_time__gte=period.exact_since(now), action_time__lt=period.until(now)))
            for period in found
        }


def _by_user(text: str) -> Q:
    """The users first: they are few, and the index by user then finds their entries."""
    users = User.objects.filter(username__icontains=text).values_list("pk", flat=True)
    return Q(user__in=list(users))


class HistoryList(NewestRowsList):
    """No index serves the filters by action and time. Those by user and by object have one."""

    limit = "entries; the search by user and the history of an object cover all"

    def identified(self) -> Q:
        for each in self.filter_specs:
            if isinstance(each, AboutFilter) and each.condition:
                return each.condition
        return _by_user(self.query) if self.query else Q(pk__in=())

    def with_figures(self) -> QuerySet[LogEntry]:
        return LogEntry.objects.select_related("user", "content_type")


@admin.register(LogEntry)
class HistoryAdmin(ReadOnlyAdmin, TokenRefusingAdmin):
    list_display = ("when", "user", "action", "target", "message")
    fields = ("when", "user", "action", "target_type", "target", "message")
    list_filter = (AboutFilter, ObjectFilter, ActionFilter, TimeFilter)
    lookups_allowed = ("about", "object", "action", "time")
    changelist_class = HistoryList
    counted = "entries"
    sortable_by = ("when",)
    search_fields = ("user",)
    search_help_text = "User, object or change, but no numbers"
    ordering = ("-pk",)

    def search_problem(self, text: str) -> str:
        is_number = bool(country_code_help(text))
        with suppress(numbers.InvalidNumber):
            is_number = is_number or bool(numbers.parse_typed(text))
        if is_number:
            return (
                "Numbers cannot be searched here, because the History has them masked. Open the rule or the contact of "
                "the number, then its history. An entry about one that was deleted is found by its time."
            )
        return super().search_problem(text)

    def get_search_results(self, request: HttpRequest, queryset: QuerySet, search_term: str) -> tuple[QuerySet, bool]:
        """By user, or by name or change among the newest entries about anything but a number."""
        if term := search_term.strip():
            # Django stores a change as JSON, and a reason as it is.
            change = Q(change_message__icontains=term) | Q(change_message__icontains=json.dumps(term)[1:-1])
            newest = Q(pk__gt=search_text.scan_floor_id(LogEntry)) & ~Q(content_type__model__in=_NUMBERED)
            queryset = queryset.filter(_by_user(term) | (has_words("object_repr", term) | change) & newest)
        return queryset, False

    when = column(lambda entry: f"{entry.action_time:%Y-%m-%d %H:%M:%S}", "when (UTC)", "pk")
    action = column(lambda entry: _ACTIONS.get(entry.action_flag, "-"), "action")
    target_type = column(lambda entry: entry.content_type.name if entry.content_type else "-", "type")
    message = column(lambda entry: folded(_changes(entry)) or "-", "what changed, and why")

    @admin.display(description="object")
    def target(self, entry: LogEntry) -> str:
        url = None if entry.is_deletion() else entry.get_admin_url()
        if not url or not entry.object_id:  # deleted or erased
            return _named(entry)
        return html_link(url, _named(entry))


def _changes(entry: LogEntry) -> str:
    """The message; with a sentence if it names fields without their values (ConsoleAdmin.history_fields)."""
    text = entry.get_change_message()
    with suppress(ValueError, AttributeError):
        changes = [part["changed"] for part in json.loads(entry.change_message) if "changed" in part]
        if any(" from " not in name for change in changes for name in change.get("fields", ())):
            return f"{text} Values that are not shown are not kept."
    return text


def _named(entry: LogEntry) -> str:
    """What the entry is about: its kind and name."""
    kind = entry.content_type.name if entry.content_type else ""
    is_of_number = entry.content_type and entry.content_type.model in _NUMBERED
    name = (
        _NUMBER.sub(lambda found: numbers.formatted(found[0]), entry.object_repr) if is_of_number else entry.object_repr
    )
    return name if name.lower().startswith(kind) else f"{kind} {name}"
