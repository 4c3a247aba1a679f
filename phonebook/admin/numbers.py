"""The console's pages of contacts, complaints and rules."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

from django import forms
from django.contrib import admin
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from core.admin import column
from phonebook import cache_versions
from phonebook.admin.base import NumberAdmin, PhoneNumberForm, number_prefix
from phonebook.models import ComplaintDay, Contact, NumberRule


class ContactForm(PhoneNumberForm):
    one_of = ("name", "location")


class RuleForm(PhoneNumberForm):
    one_of = ("spam", "name")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "spam" in self.fields:  # not for users who may only view
            field = self.fields["spam"]
            field.help_text = ""
            field.widget.choices = [("unknown", "Use the sources"), ("true", "Spam"), ("false", "Not spam")]


class ComplaintDayForm(PhoneNumberForm):
    def clean_day(self) -> date:
        day: date = self.cleaned_data["day"]
        if day > datetime.now(UTC).date() + timedelta(days=1):
            raise forms.ValidationError("Enter a date that is not in the future.")
        return day


class ImportedAdmin(NumberAdmin):
    """Rows that imports write, possibly millions: they are searched only by number. A correction invalidates the cached
    vendor answers of its number, in the same transaction: Django's pages of one row have one, its actions do not."""

    sortable_by, search_fields = ("phone",), ("number",)
    search_help_text = "Number prefix, e.g. 4930"
    warning = (
        "A later import of this number overwrites your changes and restores what you delete. "
        "Rules override all sources and imports."
    )

    def search_problem(self, text: str) -> str:
        if text.strip() and not number_prefix(text):
            return "Only numbers can be searched here. Enter a number prefix with country code, e.g. 4930."
        return super().search_problem(text)

    def save_model(self, request: HttpRequest, obj: Any, form: forms.ModelForm, change: bool) -> None:
        cache_versions.bump([obj.number])
        super().save_model(request, obj, form, change)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        cache_versions.bump([obj.number])
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet) -> None:
        with transaction.atomic():
            cache_versions.bump(queryset.values_list("number", flat=True))
            super().delete_queryset(request, queryset)


class DatedNumberAdmin(NumberAdmin):
    ordering = ("number",)

    updated = column(lambda row: f"{row.updated_at:%Y-%m-%d %H:%M}", "updated (UTC)", "updated_at")


@admin.register(Contact)
class ContactAdmin(DatedNumberAdmin, ImportedAdmin):
    """A contact from an address book that is changed here becomes the operator's own, which no synchronization
    changes."""

    form = ContactForm
    list_display = ("phone", "name", "location", "address_book", "updated")
    warning = (
        f"{ImportedAdmin.warning} Address books never change what you save here; what you delete returns if one has it."
    )
    fieldsets = ((None, {"fields": ("number", "name", "location"), "description": warning}),)
    address_book = column(lambda contact: contact.book or "-", "address book")

    def save_model(self, request: HttpRequest, obj: Contact, form: forms.ModelForm, change: bool) -> None:
        obj.book = None
        super().save_model(request, obj, form, change)


@admin.register(NumberRule)
class RuleAdmin(DatedNumberAdmin):
    form = RuleForm
    fields = ("number", "spam", "name", "note")
    list_display = ("phone", "spam_label", "name", "note", "updated")
    list_filter = ("spam",)
    lookups_allowed = ("spam__exact", "spam__isnull")
    search_fields = ("name",)
    search_help_text = "Number prefix, e.g. 4930, or part of a name"
    # As text: Django's icon for True is a green tick.
    spam_label = column(lambda rule: {True: "spam", False: "not spam", None: "-"}[rule.spam], "spam", "spam")


@admin.register(ComplaintDay)
class ComplaintDayAdmin(ImportedAdmin):
    """The subject is one of the source's own, and read-only: a later import may have deleted it."""

    form = ComplaintDayForm
    key = ("number", "source", "day", "subject")
    ordering = ("number", "source", "day")
    list_display = ("phone", "source", "date", "total", "robocalls", "subject")
    date = column(lambda row: f"{row.day:%Y-%m-%d}", "day", "day")

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        fields = ["number", "source", "day", "total", "robocalls", *(["subject"] if obj else [])]
        return [(None, {"fields": fields, "description": self.warning})]

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        """As Django's, with the subject, which is None if it was deleted."""
        return super().get_queryset(request).select_related("subject")
