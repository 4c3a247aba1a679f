"""The console's page "Erase a number's data": a preview of what is stored, and a report of what was erased. The number
is sent by POST, and is in no URL, message, log line or table."""

import unicodedata
from collections.abc import Sequence
from typing import Any, cast
from uuid import uuid4

from django import forms
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import DatabaseError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from unfold.widgets import UnfoldAdminRadioSelectWidget, UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from console import erasure
from core import db, history, numbers
from core.commands import command_line
from core.database_errors import describe
from core.forms import ConfirmationField, PhoneNumberField, TextField, country_code_help
from core.retention import NUMBERED
from core.text import sentence
from phonebook.imports.staging import LockNotAvailable
from phonebook.suppression import SuppressedNumbers

MAX_NUMBERS = 20
#: Of all statements together that read a whole table. Proxies wait for 60 s.
PAGE_TIMEOUT_S = 50.0
#: By the names of `erasure.count`: what it counts, and what happens to it.
_WHAT = {
    "contacts": ("Contacts", "deleted"),
    "complaint_days": ("Complaints, by day and source", "deleted"),
    "subjects": ("Subjects of complaints that no other number has", "deleted"),
    "rules": ("Rules for exactly this number", "deleted"),
    "imports": ("Imports that list or name the number", "the number is removed"),
    "ledger_entries": ("Ledger entries", "the number's hash is removed; amounts stay"),
    "stored_answers": ("Answers stored for replay (Idempotency-Key)", "answers and hashes are removed"),
    "admin_entries": ("History entries", "the number is removed; who did what stays"),
}
STAYS = (
    "amounts, balances and request ids in the ledger, because they are your accounts",
    "backups: erase the number again after a restore",
    "the log of the server: it contains masked numbers only",
    "what your customers have stored of answers, and what vendors store",
    "exported phone books: export them again",
    "rules for a prefix of the number",
    "notes, names and reasons in which somebody typed the number",
    "searches for the number from now on, which store its mask and a keyed hash of it again",
)


def what() -> dict[str, tuple[str, str]]:
    """With the rows of add-ons."""
    return _WHAT | {each.name: (each.title, each.happens) for each in NUMBERED}


_USE_COMMAND = f"Try again, or use the command {command_line('forget')} on the server, which has no time limit."


class NumbersField(TextField):
    """Numbers, one on each line, as PhoneNumberField takes them; cleaned to their digits (erasure.spellings)."""

    widget = UnfoldAdminTextareaWidget(attrs={"rows": 3, "autocomplete": "off"})

    def clean(self, value: Any) -> list[str]:
        lines = [(at, line) for at, line in enumerate(super().clean(value).splitlines(), 1) if line.strip()]
        if len(lines) > MAX_NUMBERS:
            raise forms.ValidationError(f"Enter at most {MAX_NUMBERS} numbers at a time.")
        found, errors = list[str](), []
        for at, line in lines:
            try:
                found += erasure.spellings(line)
            except numbers.InvalidNumber as error:
                invalid = PhoneNumberField.default_error_messages["invalid"] % {"problem": error}
                message = country_code_help(line) or invalid
                errors.append(f"Line {at}: {message}" if len(lines) > 1 else message)
        if errors:
            raise forms.ValidationError(errors)
        return list(dict.fromkeys(found))


class NumbersForm(forms.Form):
    number = NumbersField(
        label="Number",
        max_length=2_000,
        help_text=(
            "With its country code, for example +49 30 23125042. "
            f"You can enter up to {MAX_NUMBERS} numbers, one on each line."
        ),
    )


class ErasureForm(NumbersForm):
    """Erases once however often it is submitted: `once` is new on each page, and finds its History entries."""

    once = forms.UUIDField(widget=forms.HiddenInput, initial=uuid4)
    step = forms.CharField(widget=forms.HiddenInput, initial="erase")
    number = NumbersField(max_length=2_000, widget=forms.HiddenInput)
    block = forms.TypedChoiceField(
        label="May an import add the number again?",
        choices=[
            ("yes", "No: imports skip it from now on. A keyed hash of it is kept for that."),
            ("no", "Yes: the next import that contains it adds it."),
        ],
        coerce=lambda value: value == "yes",
        widget=UnfoldAdminRadioSelectWidget,
        error_messages={"required": "Select one of these."},
    )
    reference = TextField(
        label="Reference of the request",
        max_length=100,
        widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "off"}),
        help_text="For example: letter of 3 March. The History keeps it: enter neither the number nor a name.",
    )
    confirmed = ConfirmationField(label="I understand that this cannot be undone.")

    def clean_reference(self) -> str:
        text: str = self.cleaned_data["reference"]
        digits = "".join(str(unicodedata.decimal(each)) for each in text if each.isdecimal())
        if any(number[-numbers.MIN_DIGITS :] in digits for number in self.cleaned_data.get("number", ())):
            raise forms.ValidationError("Leave the number out: the History keeps this text.")
        return sentence(text)


def view(request: HttpRequest) -> HttpResponse:
    """The page: the first step shows the preview, the second one erases and shows the report, in this response only."""
    is_confirmed = request.POST.get("step") == "erase"
    form = (ErasureForm if is_confirmed else NumbersForm)(request.POST if request.method == "POST" else None)
    context: dict[str, Any] = {"title": "Erase a number's data", "form": form, "button": "Show what is stored"}
    outcome: dict[str, Any] = {}
    with db.time_limit(PAGE_TIMEOUT_S):
        if form.is_valid():
            number = request.POST["number"]
            outcome = _erased(request, form) if is_confirmed else {"form": ErasureForm(initial={"number": number})}
        found = form.cleaned_data.get("number") if form.is_bound else None
        if found and "report" not in outcome:
            context |= _preview(found)
    context |= outcome | {"stays": STAYS, "cancel_url": reverse("admin:phonebook_contact_erase")}
    return TemplateResponse(request, "erasure_page/page.html", {**admin.site.each_context(request), **context})


def _preview(found: list[str]) -> dict[str, Any]:
    context: dict[str, Any] = {"button": "Erase", "variant": "danger", "once": True}
    context["numbers"] = [
        (numbers.formatted(number), numbers.likely_region(number) or "no country") for number in found
    ]
    try:
        counts = erasure.count(found)
    except OperationalError:
        return context | {"problem": f"The database could not count in time what is stored. {_USE_COMMAND}"}
    of_any = {each.name for each in NUMBERED if each.is_of_any}
    context["is_unknown"] = not any(count for name, count in counts.items() if name not in of_any)
    suppressed = SuppressedNumbers()
    context["is_blocked"] = all(number in suppressed for number in found)
    return context | {"rows": [(*said, counts[name]) for name, said in what().items() if name in counts]}


def _erased(request: HttpRequest, form: forms.Form) -> dict[str, Any]:
    """Context of the report; or of an error, with a form that can be sent again."""
    found, block, reference, once = (form.cleaned_data[name] for name in ("number", "block", "reference", "once"))
    user, masked = cast(User, request.user), ", ".join(map(erasure.shown, found))
    name = f"number {masked}"
    entries = LogEntry.objects.filter(user=user, content_type=None, object_id=once.hex, object_repr=name[:200])
    match list(entries.order_by("pk")):
        case [began]:
            problem = f"This form was submitted before, at {began.action_time:%H:%M:%S} UTC, and has not ended."
            return {"problem": f"{problem} Wait a minute, and submit it again; or enter the number again."}
        case [_, *_, ended]:
            return {"report": _report(masked, ended, [ended.change_message]), "form": None, "is_repeated": True}

    def record(message: str) -> None:
        history.record(user=user, action=history.Action.DELETION, name=name, message=message, once=once.hex)

    record(f"Began to erase the data of a number: {reference}")
    try:
        result = erasure.erase(found, block=block, wait=False)
    except DatabaseError as error:  # too late, or a History entry that the role may not change
        problem = f"Not everything was erased: {describe(error)}. {_USE_COMMAND}"
    except LockNotAvailable:
        problem = "An import is running. Erase the number again when it has ended."
    else:
        problem = ""
    if problem:
        record(f"Did not complete the erasure of the data of a number: {reference}")
        return {"problem": problem, "form": ErasureForm({**request.POST.dict(), "once": uuid4()})}
    suppressed = SuppressedNumbers()
    blocked = all(number in suppressed for number in found)
    rows = what()
    lines = [f"{title}: {result[name]:,}, {happens}" for name, (title, happens) in rows.items() if result[name]]
    counts = ", ".join(f"{name.replace('_', ' ')} {result[name]}" for name in rows if result[name])
    skipped = " Blocked: imports skip this number." * blocked
    record(f"Erased the data of a number: {reference} {sentence(counts or 'Nothing was stored')}{skipped}")
    lines = [
        f"Request: {reference}",
        "",
        *(lines or ["Nothing was stored about the number."]),
        "",
        "Imports skip the number from now on: a keyed hash of it is kept for that."
        if blocked
        else "A later import that contains the number adds it again.",
    ]
    report = _report(masked, entries.latest("pk"), lines)
    return {"report": report, "form": None, "left_in_file": result["overwritten"] is False}


def _report(masked: str, entry: LogEntry, what: Sequence[str]) -> str:
    lines = [
        f"Erased: {masked}",
        f"Time: {entry.action_time:%Y-%m-%d %H:%M:%S} UTC",
        f"By: {entry.user.get_username()}",
        *what,
        "",
        "Not erased:",
        *(f"- {what}" for what in STAYS),
    ]
    return "\n".join(lines)
