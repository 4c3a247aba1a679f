"""The filters of the request log."""

import re
from collections.abc import Iterator
from typing import Any

from django import forms
from django.db.models import Q

from accounts.admin.base import TokenListForm, token_filter
from accounts.request_statistics import OUTCOMES
from core.forms import PhoneNumberField
from core.hashing import keyed_hash
from core.long_lists import Filter, choice_field, text_field
from lookup.search import SLOTS
from lookup.source_actions import configured

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
    "breaker": "breaker: circuit breaker open",
    "paused": "paused by an operator",
    "busy": "busy: concurrency limit reached",
    "no_time": "no_time: no time left to call it",
}
STATUSES = (200, 400, 403, 429, 500, 503)


def failing_choices() -> list[tuple[str, str]]:
    """Any source, each slot, and each configured connector."""
    return [(ANY, "Any source"), *SLOT_NAMES.items(), *((name, name) for name in sorted(configured()))]


class RequestLogForm(TokenListForm):
    """A URL has the keyed hash of the number: nothing can be read from it, and it selects nothing once the number is
    erased."""

    request_id = text_field("Request id", "X-Request-ID", 64)
    number = PhoneNumberField(label="Number", required=False, max_length=40, attrs={"placeholder": "+49 30 23125042"})
    outcome = choice_field("Outcome", OUTCOMES.items())
    status = choice_field("Status", [(str(status), str(status)) for status in STATUSES])
    failed = choice_field("Failed source", failing_choices)
    reason = choice_field("Reason", REASONS.items())
    number_hash = forms.RegexField(r"[0-9a-f]{64}\Z", required=False, max_length=64, widget=forms.HiddenInput)

    main = ("token", "request_id", "number")
    more = "Outcome, source and time"
    noun = "requests"
    empty_help = "They appear here about 2 seconds after they were answered."

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

    def selected(self, data: dict[str, Any]) -> Iterator[Filter]:
        if data["request_id"]:
            yield Filter("request_id", "request_id", data["request_id"])
        if data["number"] or data["number_hash"]:
            number_hash = keyed_hash("number", data["number"]) if data["number"] else bytes.fromhex(data["number_hash"])
            yield Filter("number_hash", "number_hash", number_hash, note="Only requests for one number.")
        if data["token"]:
            yield token_filter(data["token"], "requests")
        if data["status"] == "200":  # not in the index
            yield Filter("status", condition=Q(status=200))
        elif data["status"]:
            yield Filter("status", "status", int(data["status"]), ~Q(status=200))
        if data["failed"] or data["reason"]:
            yield _failed(data["failed"], data["reason"])
        if data["outcome"]:
            yield Filter("outcome", "outcome", data["outcome"])


def _failed(failed: str, reason: str) -> Filter:
    """The failures of the selected source for the selected reason."""
    slot = failed if failed in SLOTS else "[^ :]+"
    connector = "[^ ]+" if failed in ("", ANY, *SLOTS) else re.escape(failed)
    pattern = f"(^| ){slot}:{connector}:{re.escape(reason) if reason else '[^ :]+'}( |$)"
    every = failed in ("", ANY) and not reason
    return Filter("failed", index_condition=~Q(failures=""), condition=Q() if every else Q(failures__regex=pattern))
