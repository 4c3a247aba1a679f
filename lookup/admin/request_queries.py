"""The filters of the Request log, and the rows that they select.

The table may have hundreds of millions of rows, and each statement must end within the statement timeout. One of the
filters is served by an index in order of time; further ones are applied to SCANNED rows of it at a time.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django import forms
from django.core.exceptions import ImproperlyConfigured
from django.db.models import BigIntegerField, BinaryField, CharField, Q, QuerySet, SmallIntegerField, Value
from django.utils.datastructures import MultiValueDict
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from accounts.admin import base
from accounts.models import ApiToken
from accounts.statistics import OUTCOMES
from core.hashing import keyed_hash
from core.index_range import in_range
from lookup import numbers
from lookup.models import RequestLogEntry
from lookup.search import SLOTS, members

PAGE_ROWS = 50
#: How many rows of an index are looked through for one page when there are further filters.
SCANNED = 20_000
MAX_CANDIDATES = 50
ANY = "any"
SLOT_NAMES = {"source_a": "Source A", "source_b": "Source B"}
#: Reasons of failures (docs/monitoring.md); connectors of an operator's own may have others.
REASONS = {
    "late": "late: no answer in time",
    "unavailable": "unavailable",
    "error": "error",
    "bad_response": "bad_response: not understood",
    "auth": "auth: key refused",
    "quota": "quota: account used up",
    "rate_limited": "rate_limited by the vendor",
    "breaker": "breaker: paused after failures",
    "paused": "paused by an operator",
    "busy": "busy: concurrency limit reached",
    "no_time": "no_time: no time left to call it",
}
STATUSES = (200, 400, 403, 429, 500, 503)
_NUMBER_HASH = re.compile(r"[0-9a-f]{64}\Z")
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def _moment(label: str) -> forms.DateTimeField:
    return forms.DateTimeField(
        label=label,
        required=False,
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"],  # what browsers send
        widget=UnfoldAdminTextInputWidget(attrs={"type": "datetime-local"}),
        error_messages={"invalid": "Enter a time as YYYY-MM-DDTHH:MM."},
    )


def _text(label: str, placeholder: str, max_length: int, **attrs: str) -> forms.CharField:
    widget = UnfoldAdminTextInputWidget(attrs={"placeholder": placeholder, "autocomplete": "off", **attrs})
    return forms.CharField(label=label, required=False, max_length=max_length, widget=widget)


def _choice(label: str, choices: list[tuple[Any, str]]) -> forms.ChoiceField:
    return forms.ChoiceField(
        label=label,
        required=False,
        choices=[("", "All"), *choices],
        widget=UnfoldAdminSelectWidget,
        error_messages={"invalid_choice": "Select a value from the list."},
    )


def failing_choices() -> list[tuple[str, str]]:
    """Any source, each slot, and each configured connector."""
    names: dict[str, str] = {}
    for slot in SLOTS:
        try:
            names |= {member.name: member.name for member in members(slot)}
        except ImproperlyConfigured:  # the system check says what is wrong
            continue
    return [(ANY, "Any source"), *SLOT_NAMES.items(), *sorted(names.items())]


class RequestLogForm(forms.Form):
    """The filters. Submitted by POST, and then part of the URL, which has the keyed hash of the number: nothing can be
    read from it, and it selects nothing once the number is erased."""

    token = _text("Token", "Name, #id, last 4", 200)
    request_id = _text("Request id", "X-Request-ID", 64)
    number = _text("Number", "+49 30 23125042", 40, inputmode="tel")
    outcome = _choice("Outcome", list(OUTCOMES.items()))
    status = _choice("Status", [(str(status), str(status)) for status in STATUSES])
    failed = forms.ChoiceField(
        label="Failed source",
        required=False,
        choices=lambda: [("", "All"), *failing_choices()],
        widget=UnfoldAdminSelectWidget,
        error_messages={"invalid_choice": "Select a source from the list."},
    )
    reason = _choice("Reason", list(REASONS.items()))
    since = _moment("From (UTC)")
    until = _moment("To (UTC)")
    number_hash = forms.RegexField(_NUMBER_HASH, required=False, max_length=64, widget=forms.HiddenInput)

    @classmethod
    def from_url(cls, query: MultiValueDict[str, str]) -> "RequestLogForm":
        """A URL with a number has an error instead."""
        form = cls({name: query.get(name, "") for name in cls.base_fields if name != "number"})
        if query.get("number"):
            form.add_error("number", "Use this field: a number in a URL would be logged.")
        return form

    def url_parameters(self) -> dict[str, str]:
        """The values of a valid form for a URL. A number replaces the one whose hash was submitted."""
        values = {name: str(self.data.get(name, "")).strip() for name in self.fields if name != "number"}
        if number := self.cleaned_data["number"]:
            values["number_hash"] = keyed_hash("number", number).hex()
        return {name: value for name, value in values.items() if value}

    def clean_number(self) -> str:
        try:
            return numbers.parse_typed(text) if (text := self.cleaned_data["number"]) else ""
        except numbers.InvalidNumber as error:
            message = f"Invalid phone number ({error}). Enter it with its country code, e.g. +49 30 23125042."
            raise forms.ValidationError(message) from error

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if data.get("since") and data.get("until") and data["since"] > data["until"]:
            self.add_error("until", "The end is before the start.")
        return data


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the order of rows, newest first: that of the row with this time and id."""

    created_at: datetime
    pk: int

    @classmethod
    def parse(cls, text: str) -> "Position | None":
        """Reverse `str`. None for any other text."""
        if not (match := re.fullmatch(r"([0-9]{1,17})-([0-9]{1,18})", text)):
            return None
        seconds, microsecond = divmod(int(match[1]), 1_000_000)
        return cls(datetime.fromtimestamp(seconds, UTC).replace(microsecond=microsecond), int(match[2]))

    def __str__(self) -> str:
        whole = int(self.created_at.replace(microsecond=0).timestamp())
        return f"{whole * 1_000_000 + self.created_at.microsecond}-{self.pk}"


@dataclass(frozen=True, slots=True)
class Page:
    """Rows, newest first. `older`: where the next page begins, if there may be one. `searched_to`: how far back rows
    were looked through, if the page is not full because of SCANNED."""

    rows: list[RequestLogEntry]
    older: Position | None = None
    searched_to: datetime | None = None


class RequestSelection:
    """The rows that `form` selects; none if it is invalid."""

    def __init__(self, form: RequestLogForm) -> None:
        self.form = form
        #: Only this token's requests are selected.
        self.token: ApiToken | None = None
        #: Tokens that the text matches, at most MAX_CANDIDATES, for the operator to choose from.
        self.candidates: list[ApiToken] = []
        #: Whether names were only searched among the newest tokens (accounts.admin.base).
        self.scan_limited = False
        self._selects_none = not form.is_valid()
        if not self._selects_none and (text := form.cleaned_data["token"].strip()):
            found, self.scan_limited = base.matching_tokens(text)
            matching = list(found.order_by("name", "pk")[:MAX_CANDIDATES])
            if len(matching) == 1:
                self.token = matching[0]
            else:
                self.candidates, self._selects_none = matching, True

    @property
    def has_more_filters(self) -> bool:
        """Whether another filter than token, request id and number is set."""
        return any(self.form[name].value() for name in list(self.form.fields)[3:] if name != "number_hash")

    @property
    def is_filtered(self) -> bool:
        return bool(self.form.errors or self.form.has_changed())

    def page(self, before: Position | None) -> Page:
        """The first PAGE_ROWS rows, or those after `before`."""
        if self._selects_none:
            return Page([])
        rows, others = self._rows(before)
        floor = None
        if others:
            last_scanned = rows.values_list("created_at", "pk")[SCANNED - 1 : SCANNED].first()
            if last_scanned is not None:
                floor = Position(*last_scanned)
                rows = rows.filter(created_at__gte=floor.created_at).filter(
                    Q(created_at__gt=floor.created_at) | Q(pk__gte=floor.pk)
                )
            for condition in others:
                rows = rows.filter(condition)
        found = list(rows.select_related("token")[: PAGE_ROWS + 1])
        if len(found) > PAGE_ROWS:
            last = found[PAGE_ROWS - 1]
            return Page(found[:PAGE_ROWS], Position(last.created_at, last.pk))
        return Page(found, floor, floor.created_at if floor else None)

    def _rows(self, before: Position | None) -> tuple[QuerySet[RequestLogEntry], list[Q]]:
        """The rows that one filter selects, in the order of its index, and the conditions of the other filters."""
        data = self.form.cleaned_data
        first, last = data["since"] or _FIRST, data["until"] or _LAST
        rows = RequestLogEntry.objects.all()
        if before is not None and before.created_at <= last:
            last = before.created_at
            rows = rows.filter(Q(created_at__lt=last) | Q(pk__lt=before.pk))
        # The most selective first: its index is used, and the others filter its rows.
        columns: list[tuple[str, Value]] = []
        if data["request_id"]:
            columns.append(("request_id", Value(data["request_id"].strip(), CharField())))
        if data["number"] or data["number_hash"]:
            number_hash = keyed_hash("number", data["number"]) if data["number"] else bytes.fromhex(data["number_hash"])
            columns.append(("number_hash", Value(number_hash, BinaryField())))
        if self.token is not None:
            columns.append(("token_id", Value(self.token.pk, BigIntegerField())))
        status = int(data["status"] or 0)
        if status not in (0, 200):
            columns.append(("status", Value(status, SmallIntegerField())))
        failed = self._failed()
        if data["outcome"] and (failed is None or columns):
            columns.append(("outcome", Value(data["outcome"], CharField())))
        others = [Q(**{name: value}) for name, value in columns[1:]]
        if status == 200:
            others.append(Q(status=200))
        if columns:
            name, value = columns[0]
            if name == "status":
                rows = rows.exclude(status=200)  # the condition of its partial index
            rows = in_range(rows, name, value, first, last).order_by(f"-{name}", "-created_at", "-pk")
            if failed is not None:
                others.append(~Q(failures="") & failed)
            return rows, others
        rows = rows.filter(created_at__gte=first, created_at__lte=last).order_by("-created_at", "-pk")
        if failed is not None:
            rows = rows.exclude(failures="")  # the condition of the partial index of failures
            if failed:
                others.append(failed)
            if data["outcome"]:
                others.append(Q(outcome=data["outcome"]))
        return rows, others

    def _failed(self) -> Q | None:
        """The condition of the selected source and reason; empty for any failure. None: not selected."""
        failed, reason = self.form.cleaned_data["failed"], self.form.cleaned_data["reason"]
        if not (failed or reason):
            return None
        slot = failed if failed in SLOTS else "[^ :]+"
        connector = "[^ ]+" if failed in ("", ANY, *SLOTS) else re.escape(failed)
        if failed in ("", ANY) and not reason:
            return Q()
        return Q(failures__regex=f"(^| ){slot}:{connector}:{re.escape(reason) if reason else '[^ :]+'}( |$)")
