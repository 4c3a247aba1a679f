"""What the operator says about numbers, in Django's admin: contacts, complaints, and rules above every source; and
what became of the sources that were asked."""

import math
import re
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone

from accounts.admin import ReadOnlyAdmin
from lookup import numbers, usage
from lookup.answers import clean_text
from lookup.models import ComplaintDay, Contact, NumberRule, Usage

_PREFIX = re.compile(r"\+?([1-9][0-9]{0,14})\*?")


def numbers_that_begin_with(prefix: str) -> Q:
    """The stored numbers, 64-bit integers of 7 to 15 digits, that begin with `prefix`: one range for each length."""
    first, ranges = int(prefix), Q()
    for length in range(max(7, len(prefix)), 16):
        block = 10 ** (length - len(prefix))
        ranges |= Q(number__gte=first * block, number__lt=(first + 1) * block)
    return ranges


class NumberForm(forms.ModelForm):
    number = forms.CharField(help_text="Country code and number, digits only, such as 493023125042.")

    #: Of these at least one is needed.
    one_of: tuple[str, ...] = ()

    def clean_number(self) -> int:
        try:
            return int(numbers.parse(self.cleaned_data["number"]))
        except numbers.InvalidNumber as error:
            raise forms.ValidationError(f"Invalid phone number ({error}).") from error

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        for name, value in data.items():
            if isinstance(value, str):
                data[name] = clean_text(value)
        if self.one_of and not self.errors and all(data[name] in (None, "") for name in self.one_of):
            raise forms.ValidationError(f"At least one of these is needed: {', '.join(self.one_of)}.")
        return data


class ContactForm(NumberForm):
    one_of = ("name", "location")


class NumberRuleForm(NumberForm):
    one_of = ("spam", "name")


class NumberAdmin(admin.ModelAdmin):
    """By number. What identifies a row is set when it is added and stays."""

    form: type[forms.ModelForm] = NumberForm
    key: tuple[str, ...] = ("number",)
    show_full_result_count = False

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        return () if obj is None else self.key

    def get_search_results(self, request: HttpRequest, queryset: QuerySet, search_term: str) -> tuple[QuerySet, bool]:
        """Digits (`+493023125042`, `4930*`) find the numbers that begin so, by their index; other text as usual."""
        if prefix := _PREFIX.fullmatch("".join(search_term.split())):
            return queryset.filter(numbers_that_begin_with(prefix[1])), False
        return super().get_search_results(request, queryset, search_term)


class DatedNumberAdmin(NumberAdmin):
    def save_model(self, request: HttpRequest, obj: Any, form: forms.ModelForm, change: bool) -> None:
        obj.updated_at = timezone.now()
        super().save_model(request, obj, form, change)


@admin.register(Contact)
class ContactAdmin(DatedNumberAdmin):
    form = ContactForm
    fields = ("number", "name", "location")
    list_display = (*fields, "updated_at")
    search_fields = ("name",)


@admin.register(NumberRule)
class NumberRuleAdmin(DatedNumberAdmin):
    form = NumberRuleForm
    fields = ("number", "spam", "name", "note")
    list_display = (*fields, "updated_at")
    list_filter = ("spam",)
    search_fields = ("name",)


@admin.register(ComplaintDay)
class ComplaintDayAdmin(NumberAdmin):
    key = ("number", "source", "day")
    fields = list_display = ("number", "source", "day", "total", "robocalls")
    search_fields = ("source",)


@admin.register(Usage)
class UsageAdmin(ReadOnlyAdmin):
    """Sums of the last hours instead of a list of rows."""

    #: Hours, as the page's parameter, and what to call them.
    periods = {"1": "1 hour", "24": "24 hours", "168": "7 days"}

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        asked = request.GET.get("hours")
        hours = asked if asked in self.periods else "24"
        since = (timezone.now() - timedelta(hours=int(hours))).replace(minute=0, second=0, microsecond=0)
        sources, breakers = usage.summary(since)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Usage",
            "periods": self.periods,
            "hours": hours,
            "since": since,
            "sources": [
                (source, [_milliseconds(value) for value in (source.mean_ms, source.median_ms, source.p95_ms)])
                for source in sources
            ],
            "breakers": breakers,
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/lookup/usage/change_list.html", context)


def _milliseconds(value: float | None) -> str:
    if value is None:
        return "-"
    if math.isinf(value):
        return f"over {usage.BOUNDS_MS[-1]}"
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"
