"""The request log as a long list: its filters."""

import re
from typing import Any

from django import forms
from django.core.exceptions import ImproperlyConfigured
from django.db.models import Q

from accounts.admin.base import TokenListForm, token_match
from accounts.statistics import OUTCOMES
from core.forms import PhoneNumberField
from core.hashing import keyed_hash
from core.long_lists import Filter, LongList, Match, choice_field, exactly, text_field
from lookup.models import RequestLogEntry
from lookup.search import SLOTS, members

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


def failing_choices() -> list[tuple[str, str]]:
    """Any source, each slot, and each configured connector."""
    names: dict[str, str] = {}
    for slot in SLOTS:
        try:
            names |= {member.name: member.name for member in members(slot)}
        except ImproperlyConfigured:  # the system check says what is wrong
            continue
    return [(ANY, "Any source"), *SLOT_NAMES.items(), *sorted(names.items())]


class RequestLogForm(TokenListForm):
    """A URL has the keyed hash of the number: nothing can be read from it, and it selects nothing once the number is
    erased."""

    request_id = text_field("Request id", "X-Request-ID", 64)
    number = PhoneNumberField(label="Number", required=False, max_length=40, attrs={"placeholder": "+49 30 23125042"})
    outcome = choice_field("Outcome", OUTCOMES.items())
    status = choice_field("Status", [(str(status), str(status)) for status in STATUSES])
    failed = choice_field("Failed source", failing_choices)
    reason = choice_field("Reason", REASONS.items())
    number_hash = forms.RegexField(_NUMBER_HASH, required=False, max_length=64, widget=forms.HiddenInput)

    main = ("token", "request_id", "number")
    more = "Outcome, source and time"

    @classmethod
    def from_url(cls, query: Any) -> "RequestLogForm":
        """A URL with a number has an error instead."""
        form = cls({**query.dict(), "number": ""})
        if query.get("number"):
            form.add_error("number", "Use this field: a number in a URL would be logged.")
        return form

    def url_parameters(self) -> dict[str, str]:
        """A number replaces the one whose hash was submitted."""
        values = super().url_parameters()
        if values.pop("number", ""):
            values["number_hash"] = keyed_hash("number", self.cleaned_data["number"]).hex()
        return values


def _of_number(data: dict[str, Any]) -> Match | None:
    if not (data["number"] or data["number_hash"]):
        return None
    number_hash = keyed_hash("number", data["number"]) if data["number"] else bytes.fromhex(data["number_hash"])
    return Match(number_hash, note="Only requests for one number.")


def _of_status(data: dict[str, Any]) -> Match | None:
    status = int(data["status"] or 0)
    if status == 200:  # not in the index
        return Match(condition=Q(status=200), is_indexed=False)
    return Match(status) if status else None


def _failed(data: dict[str, Any]) -> Match | None:
    """The failures of the selected source for the selected reason."""
    failed, reason = data["failed"], data["reason"]
    if not (failed or reason):
        return None
    slot = failed if failed in SLOTS else "[^ :]+"
    connector = "[^ ]+" if failed in ("", ANY, *SLOTS) else re.escape(failed)
    if failed in ("", ANY) and not reason:
        return Match()
    pattern = f"(^| ){slot}:{connector}:{re.escape(reason) if reason else '[^ :]+'}( |$)"
    return Match(condition=Q(failures__regex=pattern))


REQUESTS = LongList(
    RequestLogEntry,
    RequestLogForm,
    (
        Filter("request_id", "requestlog_request_created", exactly("request_id")),
        Filter("number_hash", "requestlog_number_created", _of_number),
        Filter("token", "requestlog_token_created", token_match("requests")),
        Filter("status", "requestlog_status_created", _of_status),
        Filter("failed", "requestlog_failed_created", _failed),
        Filter("outcome", "requestlog_outcome_created", exactly("outcome")),
    ),
    noun="requests",
    empty_help="They appear here about 2 seconds after they were answered.",
)
