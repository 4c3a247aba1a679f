"""The page "Erase a number's data": nothing before the confirmation, a report after it, and the number nowhere else."""

import re
from datetime import date
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.admin.models import LogEntry
from django.db import OperationalError
from django.test import Client

from console import erasure
from contrib.erasure_page import views
from core import db, write_buffer
from core.retention import NUMBERED, Numbered
from phonebook.imports import staging
from phonebook.imports.contacts import CONTACTS
from phonebook.models import ComplaintDay, Contact, NumberRule
from phonebook.suppression import SuppressedNumbers, suppress
from tests import plugin
from tests.api import NUMBER, Integrator
from tests.console_pages import words

pytestmark = pytest.mark.django_db
URL = "/admin/erase-a-number/"
SHOWN = "+49 30 23125042"
CONFIRMED = {"step": "erase", "number": SHOWN, "block": "no", "reference": "letter of 3 March", "confirmed": "on"}


def confirmed(**changed: str) -> dict[str, str]:
    """What a new page sends."""
    return {**CONFIRMED, "once": str(uuid4()), **changed}


@pytest.fixture
def _known() -> None:
    Contact.objects.create(number=int(NUMBER), name="Alice Example")
    NumberRule.objects.create(number=int(NUMBER), name="Alice Example")
    ComplaintDay.objects.create(number=int(NUMBER), source="desk", day=date(2026, 1, 2), total=1)


def stored(page: Any) -> dict[str, int]:
    """What the preview counts, without zeros and without rows of add-ons."""
    of_addons = {each.title for each in NUMBERED}
    return {title: count for title, _, count in page.context.get("rows", []) if count and title not in of_addons}


@pytest.mark.usefixtures("_known")
def test_preview_counts_and_changes_nothing(admin_client: Client, integrator: Integrator) -> None:
    integrator.search(NUMBER, Idempotency_Key="k")
    write_buffer.process_buffer.flush()
    page = admin_client.post(URL, {"number": SHOWN})
    assert stored(page) == {
        "Contacts": 1,
        "Complaints, by day and source": 1,
        "Rules for exactly this number": 1,
        "Ledger entries": 1,
        "Answers stored for replay (Idempotency-Key)": 1,
    }
    counts = erasure.count([NUMBER])
    assert Contact.objects.count() == NumberRule.objects.count() == 1
    assert not LogEntry.objects.exists()
    erased = erasure.erase([NUMBER])
    assert {name: erased[name] for name in counts} == counts


@pytest.mark.usefixtures("_known")
@pytest.mark.parametrize("block", ["yes", "no"])
def test_report_has_counts_and_neither_number_nor_name(admin_client: Client, block: str) -> None:
    page = admin_client.post(URL, confirmed(block=block))
    report = page.context["report"]
    assert not Contact.objects.exists()
    assert not NumberRule.objects.exists()
    assert report.startswith("Erased: 49********42 (DE)\nTime: 20")
    assert "By: admin\nRequest: letter of 3 March.\n" in report
    assert "Contacts: 1, deleted\nComplaints, by day and source: 1, deleted" in report
    assert ("Imports skip the number from now on: a keyed hash" in report) is (block == "yes")
    assert (NUMBER in SuppressedNumbers()) is (block == "yes")
    content = page.text.partition('id="content-main"')[2].partition("</pre>")[0]
    assert NUMBER not in re.sub(r"[^0-9]", "", content)
    assert "Alice" not in page.text
    began, entry = LogEntry.objects.order_by("pk")
    assert began.change_message == "Began to erase the data of a number: letter of 3 March."
    assert (began.object_repr, began.action_flag) == (entry.object_repr, entry.action_flag)
    assert (entry.object_repr, entry.action_flag) == ("number 49********42 (DE)", 3)
    assert entry.change_message == (
        "Erased the data of a number: letter of 3 March. contacts 1, complaint days 1, rules 1."
        + " Blocked: imports skip this number." * (block == "yes")
    )
    assert NUMBER not in str(dict(admin_client.session))


@pytest.mark.usefixtures("_known")
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"reference": "call from 030 2312-5042"}, "Leave the number out: the History keeps this text."),
        ({"reference": "call from ٠٣٠ ٢٣١٢٥٠٤٢"}, "Leave the number out: the History keeps this text."),
        ({"reference": ""}, "This field is required."),
        ({"confirmed": ""}, "Tick the box to confirm."),
        ({"block": ""}, "Select one of these."),
    ],
)
def test_incomplete_confirmation_erases_nothing(admin_client: Client, changed: dict[str, str], message: str) -> None:
    page = admin_client.post(URL, confirmed(**changed))
    assert message in page.text
    assert stored(page)["Contacts"] == 1
    assert Contact.objects.count() == 1
    assert not LogEntry.objects.exists()


def test_each_bad_line_is_named_without_a_preview(admin_client: Client) -> None:
    page = admin_client.post(URL, {"number": f"{SHOWN}\n\n030 23125042\n12345"})
    errors = page.context["form"].errors["number"]
    assert [error.partition(" (")[0] for error in errors] == [
        'Line 3: "030 23125042" has no country code. Enter it with its country code, for example +49 30 23125042.',
        "Line 4: Invalid phone number",
    ]
    assert "rows" not in page.context
    page = admin_client.post(URL, {"number": "\n".join([SHOWN] * 21)})
    assert page.context["form"].errors["number"] == ["Enter at most 20 numbers at a time."]


@pytest.mark.usefixtures("_known")
def test_several_numbers_are_erased_together(admin_client: Client) -> None:
    Contact.objects.create(number=12125550142, name="Bob Example")
    both = f"{SHOWN}\r\n+1 212 555 0142\r\n"
    assert stored(admin_client.post(URL, {"number": both}))["Contacts"] == 2
    admin_client.post(URL, confirmed(number=both))
    assert not Contact.objects.exists()
    names = set(LogEntry.objects.values_list("object_repr", flat=True))
    assert names == {"number 49********42 (DE), 1********42 (US)"}


def test_unknown_number_asks_whether_the_country_is_right(admin_client: Client) -> None:
    page = admin_client.post(URL, {"number": "4155550130"})
    assert "Is the country right?" in page.text
    assert "(CH)" in page.text
    assert "Nothing was stored about the number." in admin_client.post(URL, confirmed(block="yes")).context["report"]


def test_blocked_number_is_known_by_its_hash(admin_client: Client) -> None:
    suppress([NUMBER])
    page = words(admin_client.post(URL, {"number": SHOWN}).text)
    assert "Nothing is stored about this number but a keyed hash, by which imports skip it." in page
    assert "Is the country right?" not in page


def test_files_of_any_number_do_not_tell_that_it_is_known(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = "tests.addons.plain.services.count"
    for module in (views, erasure):
        monkeypatch.setattr(module, "NUMBERED", [Numbered("files", "Files", "deleted", one, one, is_of_any=True)])
    context = admin_client.post(URL, {"number": SHOWN}).context
    assert (("Files", "deleted", 1) in context["rows"], context["is_unknown"]) == (True, True)


@pytest.mark.usefixtures("_known")
def test_timeout_is_no_success_and_can_be_repeated(
    admin_client: Client, integrator: Integrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*_: Any) -> None:
        raise OperationalError("canceling statement due to statement timeout")

    integrator.search(NUMBER)
    write_buffer.process_buffer.flush()
    with monkeypatch.context() as patch:
        patch.setattr(erasure, "_erase_from_ledger", late)
        page = admin_client.post(URL, confirmed())
    assert "Not everything was erased" in page.text
    assert "forget" in page.context["problem"]
    assert "report" not in page.context
    assert page.context["form"].data["reference"] == "letter of 3 March"
    assert [entry.change_message for entry in LogEntry.objects.order_by("pk")] == [
        "Began to erase the data of a number: letter of 3 March.",
        "Did not complete the erasure of the data of a number: letter of 3 March.",
    ]
    report = admin_client.post(URL, page.context["form"].data).context["report"]
    assert "Ledger entries: 1," in report
    assert not any(erasure.count([NUMBER]).values())


@pytest.mark.usefixtures("_known")
def test_preview_that_times_out_offers_the_command(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: Any) -> None:
        raise OperationalError("canceling statement due to statement timeout")

    monkeypatch.setattr(erasure, "count", late)
    page = admin_client.post(URL, {"number": SHOWN})
    assert "could not count in time" in page.text
    assert "confirmed" in page.context["form"].fields


@pytest.mark.usefixtures("_known")
def test_second_submission_does_not_replace_the_report(admin_client: Client) -> None:
    sent = confirmed()
    first, second = (admin_client.post(URL, sent) for _ in range(2))
    assert "The data was erased." in first.text
    assert "This form was submitted before." in second.text
    report = second.context["report"]
    assert "letter of 3 March. contacts 1, complaint days 1, rules 1." in report
    assert "Nothing was stored" not in report
    assert "- backups" in report
    assert LogEntry.objects.count() == 2


@pytest.mark.usefixtures("_known")
def test_killed_erasure_leaves_its_history_entry(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = confirmed()
    with monkeypatch.context() as patch:
        patch.setattr(erasure, "erase", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            admin_client.post(URL, sent)
    assert LogEntry.objects.get().change_message == "Began to erase the data of a number: letter of 3 March."
    page = admin_client.post(URL, sent)  # as while the first one still runs
    assert "has not ended" in page.context["problem"]
    assert Contact.objects.exists()
    assert "Contacts: 1, deleted" in admin_client.post(URL, confirmed()).context["report"]


@pytest.mark.usefixtures("_known")
def test_all_scans_of_the_page_share_one_deadline(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "PAGE_TIMEOUT_S", 0.0)
    assert "could not count in time" in admin_client.post(URL, {"number": SHOWN}).text
    assert "Not everything was erased" in admin_client.post(URL, confirmed()).text
    assert db.deadline.get() is None


@pytest.mark.skipif(plugin.production(), reason="the lock is of the connection, which the test shares with the page")
@pytest.mark.usefixtures("_known")
def test_page_does_not_wait_for_an_import(admin_client: Client) -> None:
    with staging.Tables.lock(CONTACTS):
        page = admin_client.post(URL, confirmed())
    assert "An import is running." in page.text
    assert Contact.objects.count() == 1
