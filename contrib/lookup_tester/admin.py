"""The console's page "Test a number": what a search would answer, and which source supplied what."""

import json
from typing import Any, cast

from django import forms
from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse

from core import attempt_limits, history, loop, numbers
from core.forms import PhoneNumberField
from lookup.answers import Answer, Failed, Found
from lookup.connectors.base import covers
from lookup.connectors.registry import BoundSource
from lookup.search import PSEUDO_SOURCES, SearchResult, bound_sources, search
from lookup.serializers import SearchData
from monitoring.source_statistics import advice, is_failure, outcome_text
from phonebook import rules
from phonebook.admin.number_admin import NUMBER_PAGES
from phonebook.models import Contact, NumberRule

#: Numbers that one user may test, and in how many seconds: as many as a token may search by default.
RATE = (30, 60)
_PERMISSION = "monitoring.test_lookup"
NUMBER_PAGES["Test this number"] = (_PERMISSION, "admin:monitoring_source_test")


class TestForm(forms.Form):
    __test__ = False  # no test class for pytest

    number = PhoneNumberField(max_length=40, help_text="With country code, for example +49 30 23125042.")


def view(request: HttpRequest) -> HttpResponse:
    """The page; after a POST, with the result, which is in this response only: no URL, log line or table has the
    number."""
    context: dict[str, Any] = {"title": "Test a number", "form": TestForm()}
    if request.method == "POST":
        attempt_limits.count_attempt(request, group="lookup-test", rate=RATE, key="user")
        context["form"] = form = TestForm(request.POST)
        if form.is_valid():
            context |= _result(request, form.cleaned_data["number"])
    return TemplateResponse(request, "lookup_tester/page.html", {**admin.site.each_context(request), **context})


def _result(request: HttpRequest, number: str) -> dict[str, Any]:
    result = loop.run(search(number))
    statuses = ", ".join(f"{slot} {outcome.status}" for slot, outcome in result.slots.items())
    # Masked, as in logs: the History outlives an erasure.
    history.record(
        user=cast(User, request.user),
        action=history.Action.LOOKUP,
        name=f"number {numbers.mask(number)}",
        message=f"Tested in the console: {statuses}.",
    )
    return {
        "number": number,
        "result": result,
        "phone": _phone(result),
        "json": json.dumps(SearchData(result).data, ensure_ascii=False, indent=2),
        "rule": result.rule and rules.shown(result.rule),
        "rows": [row for slot in result.slots for row in _rows(slot, result)],
        "slots": [(slot, each.status.replace("-", " "), each.elapsed_s * 1000) for slot, each in result.slots.items()],
        **_links(request, number),
    }


def _phone(result: SearchResult) -> dict[str, Any]:
    """What a telephone would show. `state`: `spam`, `fine` or `none`, if no source says either."""
    data = SearchData(result).data
    a, b = data["source_a"], data["source_b"]
    spam = b.get("spam")
    return {
        "name": a.get("name") or b.get("name", ""),
        "location": a.get("location", ""),
        "state": "none" if spam is None else "spam" if spam else "fine",
        "sources": [(slot, _words(each.answer)) for slot, each in result.slots.items()],
    }


def _words(answer: Answer) -> str:
    if isinstance(answer, Failed):
        return f"failed ({answer.reason})"
    words = {True: "spam", False: "not spam"}
    known = answer.known().values() if isinstance(answer, Found) else ()
    return ", ".join(words[value] if isinstance(value, bool) else value for value in known) or "not found"


def _rows(slot: str, result: SearchResult) -> list[dict[str, Any]]:
    """The operator rule, then every configured source, called or not. `supplied`: the fields of the answer that came
    from it. `has_page`: see source_report."""
    outcome = result.slots[slot]
    suppliers = outcome.suppliers()
    calls = {call.connector: call for call in outcome.calls}
    bound = {source.name: source for source in bound_sources(slot)}
    names = [name for name in calls if name in PSEUDO_SOURCES] + [*bound]
    rows = []
    for name in names:
        row: dict[str, Any] = {"slot": slot, "name": name, "has_page": name not in PSEUDO_SOURCES, "elapsed_ms": None}
        if call := calls.get(name):
            row |= {"outcome": outcome_text(call.outcome), "failed": is_failure(call.outcome)}
            row |= {"hint": call.hint, "advice": advice(call.outcome, name)}
            fields = [field for field, by in suppliers.items() if by == name]
            row["supplied"] = ", ".join("spam verdict" if field == "spam" else field for field in fields)
            if call.elapsed_s is not None:
                row["elapsed_ms"] = call.elapsed_s * 1000
        else:
            row |= {"outcome": "not called", "advice": _why_not_called(bound[name], result)}
        rows.append(row)
    return rows


def _why_not_called(source: BoundSource, result: SearchResult) -> str:
    if result.is_impossible and source.connector.remote:
        return "The numbering plan rules the number out."
    if not covers(source.name, source.connector, result.number):
        return "It does not cover the number."
    return "Its fields were already known."


def _links(request: HttpRequest, number: str) -> dict[str, list[tuple[str, str]]]:
    """Title and URL of the pages of the number's rule and contact (`links`), and of those that add them (`additions`),
    to which the number is sent by POST."""
    links, additions = [], []
    contact, rule = Contact.objects.filter(number=number).first(), rules.applying(number).first()
    # A rule for a prefix can be overridden by one for the number.
    has_own = {"rule": rule is not None and rule.number == int(number), "contact": contact is not None}
    for model, row, name in ((NumberRule, rule, "rule"), (Contact, contact, "contact")):
        page = f"admin:phonebook_{model._meta.model_name}"
        if row and request.user.has_perm(f"phonebook.view_{model._meta.model_name}"):
            links.append((f"Open the {name}", reverse(f"{page}_change", args=[row.pk])))
        if not has_own[name] and request.user.has_perm(f"phonebook.add_{model._meta.model_name}"):
            additions.append((f"Save as {name}", reverse(f"{page}_add")))
    return {"links": links, "additions": additions}
