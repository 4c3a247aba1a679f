"""Synchronization with Radicale: only changes are transferred, priorities hold, and nothing is lost."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from console import erasure
from contrib.address_books import carddav
from contrib.address_books import sync as sync_module
from contrib.address_books.models import AddressBook, AddressBookCard, AddressBookContact
from contrib.address_books.tests.conftest import contacts, counts, run
from contrib.address_books.tests.servers import CardDAVBook, member, multistatus, status_of, vcard
from phonebook.imports.contacts import ContactImport
from phonebook.imports.readers.base import Rejected
from phonebook.models import Contact
from tests.phonebook.imports.loading import load
from tests.upstream import raw, resets

pytestmark = pytest.mark.django_db

ALICE, BOB, CAROL = 12125550142, 12125550143, 12125550144


def three(book: CardDAVBook) -> None:
    book.put(
        a=vcard("Alice Example", "+12125550142", place="Berlin"),
        b=vcard("Bob Example", "+12125550143"),
        c=vcard("Without Number"),
    )


def test_only_changes_are_transferred(book: CardDAVBook) -> None:
    three(book)
    assert counts(run()) == (3, 2, 0, 0)
    assert contacts() == {ALICE: ("Alice Example", "Berlin", "office"), BOB: ("Bob Example", "", "office")}
    assert book.requests() == ["PROPFIND", "REPORT"]
    assert counts(run()) == (0, 0, 0, 0)
    assert book.requests() == ["PROPFIND"]
    book.put(b=vcard("Bob Changed", "+12125550143", "+12125550144"))
    book.delete("a")
    assert counts(run()) == (1, 1, 1, 1)
    assert book.requests() == ["PROPFIND", "REPORT"]
    assert contacts() == {BOB: ("Bob Changed", "", "office"), CAROL: ("Bob Changed", "", "office")}


def test_first_book_wins_and_the_next_one_shows_again(books: Callable[..., CardDAVBook], settings: Any) -> None:
    office, sales = books("office"), books("sales")
    office.put(a=vcard("Alice Office", "+12125550142"))
    sales.put(a=vcard("Alice Sales", "+12125550142"), b=vcard("Bob Sales", "+12125550143"))
    run("sales")
    assert contacts()[ALICE] == ("Alice Sales", "", "sales")
    run("office", "sales")
    assert contacts() == {ALICE: ("Alice Office", "", "office"), BOB: ("Bob Sales", "", "sales")}
    settings.ADDRESS_BOOKS = ["sales", "office"]
    assert counts(run("office")) == (0, 0, 0, 0)
    assert contacts()[ALICE] == ("Alice Sales", "", "sales")
    sales.delete("a")
    run("sales")
    assert contacts() == {ALICE: ("Alice Office", "", "office"), BOB: ("Bob Sales", "", "sales")}


def test_own_contact_wins_and_the_books_shows_after_it(book: CardDAVBook) -> None:
    Contact.objects.create(number=ALICE, name="Alice Own")
    three(book)
    run()
    assert contacts()[ALICE] == ("Alice Own", "", None)
    book.delete("a")
    run()
    assert contacts()[ALICE] == ("Alice Own", "", None)
    book.put(a=vcard("Alice Example", "+12125550142"))
    run()
    Contact.objects.filter(number=ALICE).delete()
    assert counts(run()) == (0, 0, 0, 0)
    assert contacts()[ALICE] == ("Alice Example", "", "office")


def test_row_that_a_book_takes_over_is_no_more_an_imports(book: CardDAVBook, file: Any) -> None:
    """So that its undo leaves it."""
    path = file(f"number,name\n{ALICE},Alice Imported\n{BOB},Bob Imported\n")
    batch_id = load(ContactImport(on_reject=lambda *row: None), path)
    three(book)
    run()
    Contact.objects.filter(number=ALICE).delete()
    run()
    assert list(Contact.objects.order_by("number").values_list("number", "book", "import_batch")) == [
        (ALICE, "office", None),
        (BOB, None, batch_id),
    ]


def test_contacts_of_unknown_books_are_replaced(book: CardDAVBook) -> None:
    """Those that stayed while the add-on was left out (docs/addons.md)."""
    Contact.objects.create(number=ALICE, name="Alice Before", book="office")
    Contact.objects.create(number=BOB, name="Bob Before", book="office")
    Contact.objects.create(number=CAROL, name="Carol Own")
    book.put(a=vcard("Alice Example", "+12125550142"))
    assert counts(run()) == (1, 1, 0, 0)
    assert contacts() == {ALICE: ("Alice Example", "", "office"), CAROL: ("Carol Own", "", None)}


def test_same_number_on_two_cards_stays_until_both_are_gone(book: CardDAVBook) -> None:
    book.put(a=vcard("First", "+12125550142"))
    run()
    book.put(b=vcard("Second", "+12125550142"))
    run()
    assert contacts() == {ALICE: ("First", "", "office")}
    book.delete("a")
    run()
    assert contacts() == {ALICE: ("Second", "", "office")}
    book.delete("b")
    run()
    assert contacts() == {}


@pytest.mark.parametrize("fault", [raw(b"", 503), resets], ids=["503", "reset"])
def test_failure_in_the_middle_changes_nothing(book: CardDAVBook, fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carddav, "BATCH", 1)
    three(book)
    run()
    before = AddressBook.objects.get()
    book.put(d=vcard("Carol Example", "+12125550144"), e=vcard("Erin Example", "+12125550145"))
    book.delete("a")
    book.faults = [None, None, fault]  # of two batches, the second
    assert run().errors != []
    after = AddressBook.objects.get()
    assert after.synced_at == before.synced_at
    assert after.error != ""
    assert after.failed_at is not None
    assert contacts() == {ALICE: ("Alice Example", "Berlin", "office"), BOB: ("Bob Example", "", "office")}
    assert counts(run()) == (2, 2, 0, 1)
    assert AddressBook.objects.get().error == ""


@pytest.mark.parametrize(("transactions", "cards"), [(1, 1), (5, 3)], ids=["cards", "contacts"])
def test_break_off_while_writing_leaves_the_rest_to_the_next_run(
    book: CardDAVBook, monkeypatch: pytest.MonkeyPatch, transactions: int, cards: int
) -> None:
    """On PostgreSQL all of them are one."""
    monkeypatch.setattr(sync_module, "PART", 1)
    three(book)
    ended = list[int]()

    def interrupted() -> None:
        ended.append(1)
        if len(ended) == transactions:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sync_module, "yield_to_writers", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run()
    written = 0 if connection.vendor == "postgresql" else cards
    assert AddressBookCard.objects.count() == written
    assert counts(run())[0] == 3 - written
    assert set(contacts()) == {ALICE, BOB}


def test_bad_card_is_rejected_with_reason_and_path(book: CardDAVBook) -> None:
    book.put(
        good=vcard("Alice Example", "+12125550142"),
        bad=vcard("Nobody", "646 555 0100", "+1 212 555 0143"),
    )
    rejects: list[tuple[str, Rejected]] = []
    result = run(rejects=rejects)
    assert (result.read, result.added, result.rejected) == (3, 2, {"number has no country code": 1})
    assert [(where, row.reason) for where, row in rejects] == [
        (f"office {book.path}bad.vcf", "number has no country code")
    ]
    assert rejects[0][1].line > 1
    assert AddressBook.objects.get().rejected == 1


def test_region_applies_and_its_change_transfers_all(book: CardDAVBook, monkeypatch: pytest.MonkeyPatch) -> None:
    book.put(a=vcard("Alice Example", "212 555 0142"))
    assert run().added == 0
    monkeypatch.setenv("ADDRESS_BOOK_OFFICE_REGION", "US")
    assert counts(run()) == (1, 1, 0, 0)
    assert AddressBook.objects.get().rejected == 0


def test_card_that_is_not_returned_is_requested_again(book: CardDAVBook) -> None:
    three(book)
    alice = member(f"{book.path}a.vcf", "x", vcard("Alice Example", "+12125550142"))
    one_of_three = raw(multistatus(alice, status_of(f"{book.path}b.vcf", 500)).encode(), 207)
    book.faults = [None, one_of_three]
    rejects: list[tuple[str, Rejected]] = []
    result = run(rejects=rejects)
    assert (result.transferred, result.added, result.rejected) == (1, 1, {"the server did not return the card": 2})
    assert sorted((where[-5:], row.detail) for where, row in rejects) == [("b.vcf", "status 500"), ("c.vcf", "")]
    assert run().added == 1
    assert set(contacts()) == {ALICE, BOB}


def test_forgotten_number_returns_only_when_its_card_changes(book: CardDAVBook) -> None:
    three(book)
    run()
    erased = erasure.erase([str(ALICE)])
    assert (erased["contacts"], erased["address_book_contacts"]) == (1, 1)
    assert not AddressBookContact.objects.filter(number=ALICE).exists()
    run()
    assert set(contacts()) == {BOB}
    run(full=True)
    assert set(contacts()) == {ALICE, BOB}


@pytest.fixture
def before_merge(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """`before_merge(action)`: runs after the next transfer, before its result is written."""
    fetch = carddav.fetch

    def set_action(action: Callable[[], Any]) -> None:
        def fetch_and_act(*args: Any, **options: Any) -> Any:
            changes = fetch(*args, **options)
            action()
            return changes

        monkeypatch.setattr(carddav, "fetch", fetch_and_act)

    return set_action


def test_number_blocked_during_the_transfer_is_skipped(book: CardDAVBook, before_merge: Any) -> None:
    three(book)
    before_merge(lambda: erasure.erase([str(ALICE)], block=True))
    assert run().rejected == {"no number": 1, "blocked: its data was erased on request": 1}
    assert set(contacts()) == {BOB}


def test_card_without_a_number_is_counted_and_no_fault(book: CardDAVBook) -> None:
    book.put(a=vcard("Mail Only"), b=vcard("Example Bakery", "+12125550142", "+1 212 555 0142", "x"))
    result = run()
    assert (result.read, result.added, result.repeated) == (4, 1, 1)
    assert result.rejected == {"no number": 1, "number is no phone number": 1}
    assert AddressBook.objects.get().rejected == 1


def test_loss_of_more_than_half_is_refused(book: CardDAVBook) -> None:
    numbers = [f"+1212555{n:04}" for n in range(100, 124)]
    book.put(a=vcard("Example Bakery", *numbers[:13]), b=vcard("Example Garage", *numbers[13:]))
    run()
    book.delete("a")
    assert run().errors == ["the book would lose 13 of its 24 numbers; if that is right, use --allow-loss"]
    assert Contact.objects.count() == 24
    assert counts(run(allow_loss=True)) == (0, 0, 0, 13)
    assert Contact.objects.count() == 11


def test_erased_numbers_are_no_loss(book: CardDAVBook) -> None:
    numbers = [f"1212555{n:04}" for n in range(100, 124)]
    book.put(a=vcard("Example Bakery", *(f"+{number}" for number in numbers)))
    run()
    erasure.erase(numbers[:14])
    assert counts(run()) == (0, 0, 0, 0)
    assert AddressBook.objects.get().contacts == 10


def test_dry_run_counts_and_changes_nothing(book: CardDAVBook) -> None:
    three(book)
    assert counts(run(dry_run=True)) == (3, 2, 0, 0)
    assert not Contact.objects.exists()
    assert not AddressBook.objects.exists()
    run()
    book.delete("a")
    assert counts(run(dry_run=True)) == (0, 0, 0, 1)
    assert set(contacts()) == {ALICE, BOB}
    assert counts(run()) == (0, 0, 0, 1)


def test_run_that_another_has_overtaken_changes_nothing(book: CardDAVBook, before_merge: Any) -> None:
    three(book)
    before_merge(lambda: AddressBook.objects.create(name="office", synced_at=timezone.now()))
    assert run().errors == ["another run synchronized it at the same time"]
    assert not AddressBookCard.objects.exists()
    assert contacts() == {}
