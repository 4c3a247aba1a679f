"""The console's pages of contacts, complaints and rules."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db import OperationalError, transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html, format_html_join

from core import numbers
from core.cells import column, folded, html_link, page_url
from core.forms import PhoneNumberField
from phonebook import cache_versions, rules
from phonebook.admin.number_admin import BY_DIGITS, NumberAdmin, PhoneNumberForm, number_prefix
from phonebook.contacts import named
from phonebook.models import ComplaintDay, Contact, NumberRule

#: Rules that concern the same numbers as another one, on its page.
MAX_LISTED = 10


class ContactForm(PhoneNumberForm):
    one_of = ("name", "location")


class PrefixField(PhoneNumberField):
    parse = staticmethod(numbers.parse_prefix)


class RuleForm(PhoneNumberForm):
    number = PrefixField(
        help_text="With country code, for example +49 30 23125042. With Prefix, the first digits, for example +49 30."
    )
    one_of = ("spam", "name")

    class Meta:
        help_texts = {
            "spam": 'Overrides all sources, unless it is "Use the sources".',
            "is_prefix": "Enter the first digits. The rule applies to every number that begins with them.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "spam" in self.fields:  # not for users who may only view
            self.fields["spam"].widget.choices = [
                ("unknown", "Use the sources"),
                ("true", "Spam"),
                ("false", "Not spam"),
            ]

    def clean(self) -> dict[str, Any]:
        data = super().clean()
        number = data.get("number") or str(self.instance.number or "")
        if number and len(number) < numbers.MIN_DIGITS and not data.get("is_prefix"):
            message = "A number has 7 to 15 digits. Enter it with its country code, or turn on Prefix."
            self.add_error("is_prefix", message)
        return data


class ComplaintDayForm(PhoneNumberForm):
    class Meta:
        help_texts = {
            "source": "Who collected the complaints, for example ftc.",
            "day": "Date of the complaints (UTC), as YYYY-MM-DD.",
            "total": "Number of complaints on this day.",
            "robocalls": "How many of them are about robocalls.",
        }

    def clean_day(self) -> date:
        day: date = self.cleaned_data["day"]
        if day > datetime.now(UTC).date() + timedelta(days=1):
            raise forms.ValidationError("Enter a date that is not in the future.")
        return day


class ImportedAdmin(NumberAdmin):
    """Rows that imports write, possibly millions: they are sorted only by number. A correction invalidates the cached
    vendor answers of its number, in the same transaction: Django's pages of one row have one, its actions do not."""

    sortable_by, search_fields = ("phone",), ("number",)
    search_help_text = "Number prefix, for example 4930"
    searches_names = False
    newest = "last added"
    always_saved: tuple[str, ...] = ("import_batch",)
    add_warning = "A later import of this number overwrites what you enter. Rules override all sources and imports."
    warning = (
        "A later import of this number overwrites your changes and restores what you delete. "
        "Rules override all sources and imports."
    )

    def description(self, obj: Model | None) -> str:
        """Above the form."""
        return self.warning if obj else self.add_warning

    def search_problem(self, text: str) -> str:
        is_name = self.searches_names and any(map(str.isalpha, text))
        if text.strip() and not number_prefix(text) and not is_name:
            what = "Only numbers and names" if self.searches_names else "Only numbers"
            return f"{what} can be searched here. Enter a number prefix with country code, for example 4930."
        return super().search_problem(text)

    def save_model(self, request: HttpRequest, obj: Any, form: forms.ModelForm, change: bool) -> None:
        cache_versions.bump([obj.number])
        obj.import_batch = None  # no undo of an import changes the row any more
        super().save_model(request, obj, form, change)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        super().delete_model(request, obj)
        cache_versions.bump([obj.number])  # after the row is locked, as in a save

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet) -> None:
        with transaction.atomic():
            numbers = list(queryset.values_list("number", flat=True))
            super().delete_queryset(request, queryset)
            cache_versions.bump(numbers)


class DatedNumberAdmin(NumberAdmin):
    updated = column(lambda row: f"{row.updated_at:%Y-%m-%d %H:%M}", "updated (UTC)", "updated_at")


@admin.register(Contact)
class ContactAdmin(DatedNumberAdmin, ImportedAdmin):
    """A contact that is changed here becomes the operator's own (Contact.book). `shown`: the read-only fields of its
    page."""

    form = ContactForm
    always_saved = ("import_batch", "book", "updated_at")
    search_help_text = "Number prefix, for example 4930, or part of a name"
    searches_names = True
    list_display: tuple[str, ...] = ("phone", "name", "location", "updated")
    shown: tuple[str, ...] = ("updated",)

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        fields = ["phone", "name", "location", *self.shown] if obj else ["number", "name", "location"]
        return [(None, {"fields": fields, "description": self.description(obj)})]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        return (*super().get_readonly_fields(request, obj), *(self.shown if obj else ()))

    def get_search_results(self, request: HttpRequest, queryset: QuerySet, search_term: str) -> tuple[QuerySet, bool]:
        """As NumberAdmin's, but names are searched once, for a page of them: there is no index for a part of one."""
        if not search_term or number_prefix(search_term):
            return super().get_search_results(request, queryset, search_term)
        try:
            keys = list(named(search_term, queryset).values_list("pk", flat=True)[: self.list_per_page + 1])
        except OperationalError:
            message = "The search by name timed out: too many contacts. Enter a number prefix, for example 4930."
            self.message_user(request, message, messages.ERROR)
            return queryset.none(), False
        return queryset.filter(pk__in=keys), False

    def save_model(self, request: HttpRequest, obj: Contact, form: forms.ModelForm, change: bool) -> None:
        obj.book = None
        super().save_model(request, obj, form, change)


_SPAM = {True: "spam", False: "not spam", None: ""}


def _said(rule: NumberRule) -> str:
    """A link to the rule, and what it says."""
    return format_html("{} ({})", _link(rule), ", ".join(filter(None, (_SPAM[rule.spam], rule.name))))


def _link(rule: NumberRule) -> str:
    return html_link(page_url(NumberRule, "change", rule.pk), rules.shown(rule))


def _listed(others: QuerySet[NumberRule], shown: Callable[[NumberRule], str] = _said) -> str:
    """At most MAX_LISTED rules as HTML, and how many there are besides; `-` for none."""
    texts = [shown(rule) for rule in others[:MAX_LISTED]]
    more = others.count() - MAX_LISTED if len(texts) == MAX_LISTED else 0
    return format_html_join(", ", "{}", [(text,) for text in [*texts, *[f"and {more:,} more"] * (more > 0)]]) or "-"


@admin.register(NumberRule)
class RuleAdmin(DatedNumberAdmin):
    """Shows the rules that concern the same numbers, and which of them apply."""

    form = RuleForm
    always_saved = ("updated_at",)
    ordering = (BY_DIGITS,)
    list_display = ("phone", "spam_label", "name", "note_text", "updated")
    list_filter = ("spam", "is_prefix")
    lookups_allowed = ("spam__exact", "spam__isnull", "is_prefix__exact")
    search_fields = ("name__shown",)
    search_help_text = "Number prefix, for example 4930, or part of a name"
    history_fields = ("is_prefix", "spam")  # not the name, which is a caller's
    # As text: Django's icon for True is a green tick.
    spam_label = column(lambda rule: _SPAM[rule.spam] or "-", "spam", "spam")
    phone = column(rules.shown, "number or prefix", BY_DIGITS)
    note_text = column(lambda rule: folded(rule.note) or "-", "note")
    overridden = column(lambda rule: _listed(rules.shorter(rule)), "overrides")
    overriding = column(lambda rule: _listed(rules.longer(rule)), "overridden by")

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        fields = ("number", "is_prefix", "spam", "name", "note")
        return fields if obj is None else (*fields, "overridden", "overriding")

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        return () if obj is None else ("phone", "number", "overridden", "overriding")

    def response_add(self, request: HttpRequest, obj: NumberRule, *args: Any) -> HttpResponse:
        return self._with_others(request, obj, super().response_add(request, obj, *args))

    def response_change(self, request: HttpRequest, obj: NumberRule) -> HttpResponse:
        return self._with_others(request, obj, super().response_change(request, obj))

    def _with_others(self, request: HttpRequest, obj: NumberRule, response: HttpResponse) -> HttpResponse:
        """`response`, with a message if other rules concern the same numbers."""
        for text, others in (
            ("This rule overrides {} for its numbers.", rules.shorter(obj)),
            ("This rule is overridden by {} for some of its numbers.", rules.longer(obj)),
        ):
            if (found := _listed(others, _link)) != "-":
                self.message_user(request, format_html(text, found), messages.INFO)
        return response


@admin.register(ComplaintDay)
class ComplaintDayAdmin(ImportedAdmin):
    """The subject is one of the source's own, and read-only: a later import may have deleted it."""

    form = ComplaintDayForm
    key = ("number", "source", "day", "subject")
    counted = "complaint counts"
    list_display = ("phone", "source", "date", "total", "robocalls", "subject")
    date = column(lambda row: f"{row.day:%Y-%m-%d}", "day", "day")

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        fields = ["phone" if obj else "number", "source", "day", "total", "robocalls", *(["subject"] if obj else [])]
        return [(None, {"fields": fields, "description": self.description(obj)})]

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        """As Django's, with the subject, which is None if it was deleted."""
        return super().get_queryset(request).select_related("subject")
