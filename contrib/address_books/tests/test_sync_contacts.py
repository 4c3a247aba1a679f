"""`sync_contacts`: output, exit status, History, removal; and what `doctor` and the console say about the books."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.utils import timezone

from contrib.address_books.health import CHECK
from contrib.address_books.models import AddressBook, AddressBookCard
from contrib.address_books.sync import TASK
from contrib.address_books.tests.conftest import Configure
from contrib.address_books.tests.servers import CardDAVBook, vcard
from lookup.answers import Found, NotFound
from lookup.connectors.tables import Directory
from monitoring import task_runs
from monitoring.health.registry import Condition, Effect
from phonebook.models import Contact
from tests import awaited
from tests.console_pages import words
from tests.phonebook.commands.imports import Ran
from tests.upstream import raw

pytestmark = pytest.mark.django_db

ALICE, BOB = "12125550142", "12125550143"


def test_books_are_synchronized_and_counted(book: CardDAVBook) -> None:
    book.put(a=vcard("Alice Example", "+12125550142", "646 555 0100"))
    ran = Ran("sync_contacts")
    assert ran.error is None
    assert ran.out.splitlines() == [
        "office: 1 card, 2 rows read, 1 rejected. 1 added.",
        "  1 rejected: number has no country code",
    ]
    assert ran.err == "office: 64******00: number has no country code\n"
    assert awaited.answer_of(Directory(), ALICE) == Found(name="Alice Example")
    assert Ran("sync_contacts").out == "office: nothing new.\n"
    (entry,) = LogEntry.objects.all()
    assert entry.change_message.startswith("Synchronized (office): 1 added, 0 changed,")
    assert task_runs.all_runs()[TASK].succeeded_at


def test_failed_book_fails_the_command(books: Callable[..., CardDAVBook], tmp_path: Path) -> None:
    office, sales = books("office"), books("sales")
    office.faults = [raw(b"", 503)]
    sales.put(a=vcard("Alice Example", "+12125550142", "646 555 0100"))
    ran = Ran("sync_contacts", "--json", "--rejects", str(tmp_path / "rejects"))
    assert str(ran.error) == "1 of 2 address books failed."
    assert ran.err == "office: the server answered 503.\n"
    said = json.loads(ran.out)
    assert (said["office"]["errors"], said["office"]["added"]) == (["the server answered 503"], 0)
    assert (said["sales"]["errors"], said["sales"]["added"], said["sales"]["transferred"]) == ([], 1, 1)
    assert (tmp_path / "rejects").read_text().startswith(f"sales {sales.path}a.vcf:7: ")
    assert task_runs.all_runs()[TASK].failed_at


def test_removed_book_takes_its_contacts_away(books: Callable[..., CardDAVBook], settings: Any) -> None:
    office, sales = books("office"), books("sales")
    office.put(a=vcard("Alice Office", "+12125550142"))
    sales.put(a=vcard("Alice Sales", "+12125550142"))
    Ran("sync_contacts")
    assert "is in ADDRESS_BOOKS" in str(Ran("sync_contacts", "--remove", "office").error)
    settings.ADDRESS_BOOKS = ["sales"]
    assert "Address book not in ADDRESS_BOOKS: office. Its 1 contacts stay." in health()[1]
    assert Ran("sync_contacts", "--remove", "office").out == "Removed the address book office with 1 contacts.\n"
    assert awaited.answer_of(Directory(), ALICE) == Found(name="Alice Sales")
    assert AddressBookCard.objects.count() == 1
    settings.ADDRESS_BOOKS = []
    Ran("sync_contacts", "--remove", "sales")
    assert task_runs.all_runs() == {}
    assert awaited.answer_of(Directory(), ALICE) == NotFound()
    assert "There is no address book" in str(Ran("sync_contacts", "--remove", "sales").error)
    assert "Set ADDRESS_BOOKS" in str(Ran("sync_contacts").error)


def test_import_takes_a_number_over(book: CardDAVBook, file: Callable[..., str]) -> None:
    book.put(a=vcard("Alice Example", "+12125550142"))
    Ran("sync_contacts")
    same = file("number,name,location\n12125550142,Alice Example,\n")
    assert Ran("import_contacts", same, "--json").counts() == {"changed": 1}
    assert Contact.objects.get().book is None
    book.put(a=vcard("Alice Changed", "+12125550142"))
    Ran("sync_contacts")
    assert awaited.answer_of(Directory(), ALICE) == Found(name="Alice Example")


def test_contact_changed_in_the_console_is_kept(book: CardDAVBook, admin_client: Client) -> None:
    book.put(a=vcard("Alice Example", "+12125550142"))
    Ran("sync_contacts")
    contacts = admin_client.get("/admin/phonebook/contact/").content.decode()
    assert "office" in contacts
    form = {"number": ALICE, "name": "Alice Corrected", "location": ""}
    assert admin_client.post(f"/admin/phonebook/contact/{Contact.objects.get().pk}/change/", form).status_code == 302
    book.put(a=vcard("Alice Changed", "+12125550142"))
    Ran("sync_contacts")
    assert (Contact.objects.get().name, Contact.objects.get().book) == ("Alice Corrected", None)


def health() -> tuple[bool, str]:
    """Whether the address books are healthy, and the detail."""
    found = CHECK.result()
    assert found is not None
    return found.healthy, found.detail


def test_health_reports_what_an_operator_must_do(book: CardDAVBook, monkeypatch: pytest.MonkeyPatch) -> None:
    never = "Address book not synchronized: office. Never synchronized. Run ./run manage sync_contacts, and hourly"
    assert health()[1].startswith(never)
    Ran("sync_contacts")
    assert health() == (True, "Synchronized: office.")
    AddressBook.objects.update(synced_at=timezone.now() - timedelta(days=2))
    assert "Address book not synchronized: office. Last synchronized at" in health()[1]
    book.faults = [raw(b"", 503)]
    Ran("sync_contacts")
    assert "the server answered 503. Run ./run manage sync_contacts" in health()[1]
    monkeypatch.setenv("ADDRESS_BOOK_OFFICE_REGION", "Nowhere")
    assert "ADDRESS_BOOK_OFFICE_REGION must be" in health()[1]


def conditions() -> list[tuple[str, str, Effect]]:
    return [(each.kind, each.subject, each.effect) for each in CHECK.find(None) if isinstance(each, Condition)]


def test_alert_opens_when_a_book_fails_for_hours(configure: Configure) -> None:
    configure({"ADDRESS_BOOK_OFFICE_URL": "https://dav.example.org/a/"})
    now = timezone.now()
    AddressBook.objects.create(name="office", synced_at=now, error="HTTP 500", failed_at=now)
    assert conditions() == [("address_book.failing", "office", Effect.PROBLEM)]
    AddressBook.objects.update(synced_at=now - timedelta(hours=4))
    assert conditions() == [("address_book.failing", "office", Effect.ALERT)]
    AddressBook.objects.update(synced_at=now, error="")
    assert conditions() == []


def test_dashboard_shows_a_failing_book(admin_client: Client, settings: Any) -> None:
    settings.ADDRESS_BOOKS = ["office"]
    AddressBook.objects.create(name="office", error="401: the password is rejected", failed_at=timezone.now())
    attention = admin_client.get("/admin/").text.partition("Needs attention")[2].partition("<details")[0]
    assert "Address book not synchronized: office" in attention


def test_page_of_a_contact_names_its_book(admin_client: Client) -> None:
    for book in ("office", None):
        contact = Contact.objects.create(number=ALICE if book else BOB, name="Alice Example", book=book)
        page = words(admin_client.get(f"/admin/phonebook/contact/{contact.pk}/change/").text)
        assert f"Address book {book or '-'} Updated (UTC)" in page
        assert "Once you save a contact here, its address book no longer updates it." in page
    assert "Address book" not in words(admin_client.get("/admin/phonebook/contact/add/").text)


def test_console_shows_age_counts_and_errors(books: Callable[..., CardDAVBook], admin_client: Client) -> None:
    assert "Address books" not in admin_client.get("/admin/monitoring/source/").content.decode()
    office, sales = books("office"), books("sales")
    office.put(a=vcard("Alice Example", "+12125550142", "646 555 0100"))
    sales.faults = [raw(b"", 503)]
    Ran("sync_contacts")
    AddressBook.objects.filter(name="office").update(synced_at=timezone.now() - timedelta(hours=3, seconds=5))
    page = " ".join(admin_client.get("/admin/monitoring/source/").content.decode().split())
    assert '<th scope="row">office</th><td class="number">1</td><td class="number">1</td>' in page
    assert "3 hours" in page
    assert "the server answered 503" in page
    assert "never" in page
