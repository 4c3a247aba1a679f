"""The undo of an import on its page: for whom, what it says, and what it does."""

import io
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from contrib.uploads import undo, undo_admin
from core.cells import page_url
from phonebook.imports.batches import begin_merge, fail
from phonebook.imports.contacts import CONTACTS
from phonebook.imports.staging import Counts, LockNotAvailable, Tables
from phonebook.models import Contact, ImportBatch
from tests.console_pages import words

pytestmark = pytest.mark.django_db

IMPORTS = "/admin/phonebook/importbatch/"
FIRST = 12_125_550_100


@pytest.fixture
def batch(file: Any) -> ImportBatch:
    """It changed a contact, added two, and rejected a row."""
    rows = dict.fromkeys(range(3), "Ann")
    text = "number,name\n" + "".join(f"{FIRST + n},{name}\n" for n, name in rows.items())
    call_command("import_contacts", file(f"number,name\n{FIRST},Bob\n"), stdout=io.StringIO())
    call_command("import_contacts", file(text + "12,Eve\n", "people.csv"), stdout=io.StringIO(), stderr=io.StringIO())
    return ImportBatch.objects.latest("pk")


def undo_url(batch: ImportBatch) -> str:
    return page_url(ImportBatch, "undo_import", batch.pk)


def test_page_offers_the_undo(admin_client: Client, batch: ImportBatch) -> None:
    text = words(admin_client.get(f"{IMPORTS}{batch.pk}/change/").text)
    assert "Undo this import" in text
    assert "Not undone." in text


def test_undo_says_first_what_it_does_and_then_what_it_did(admin_client: Client, batch: ImportBatch) -> None:
    Contact.objects.filter(number=FIRST + 2).update(import_batch=None, name="Eve")
    shown = "1 restored, 0 put back, 1 deleted, 1 left because they were changed since"
    assert shown in admin_client.get(undo_url(batch)).text
    done = admin_client.post(undo_url(batch), follow=True)
    assert f"The import was undone. Rows: {shown}." in words(done.text)
    assert "Undo this import" not in words(done.text)
    assert dict(Contact.objects.values_list("number", "name")) == {FIRST: "Bob", FIRST + 2: "Eve"}
    entry = LogEntry.objects.latest("pk")
    assert (entry.object_id, entry.change_message) == (str(batch.pk), f"Undone: rows {shown}.")
    again = admin_client.post(undo_url(batch))
    assert "It was undone." in again.text


def test_rows_that_were_left_are_listed(admin_client: Client, batch: ImportBatch) -> None:
    Contact.objects.filter(number=FIRST).update(import_batch=None, name="Eve")
    before = words(admin_client.get(undo_url(batch)).text)
    assert "will be left: +1 212 555 0100: changed in the console or by an address book." in before
    text = words(admin_client.post(undo_url(batch), follow=True).text)
    assert "+1 212 555 0100: changed in the console or by an address book" in text


def test_undo_needs_permission_for_all_that_it_does(client: Client, batch: ImportBatch) -> None:
    user = User.objects.create_user("olga", is_staff=True)
    client.force_login(user)
    needed = {"add_contact", "change_contact", "delete_contact"}
    others = {"view_importbatch", "add_complaintday", "change_complaintday", "delete_complaintday"}
    for lacking in sorted(needed):
        user.user_permissions.set(Permission.objects.filter(codename__in=needed - {lacking} | others))
        assert "Undo this import" not in client.get(f"{IMPORTS}{batch.pk}/change/").text
        assert client.post(undo_url(batch)).status_code == 403
    user.user_permissions.add(*Permission.objects.filter(codename__in=needed))
    assert client.post(undo_url(batch)).status_code == 302
    assert Contact.objects.count() == 1


def test_import_under_a_later_one_names_it(admin_client: Client, batch: ImportBatch) -> None:
    first = ImportBatch.objects.earliest("pk")
    refused = f"Import {batch.pk} came later: undo it first."
    ImportBatch.objects.filter(pk=batch.pk).update(file_name="staff.csv")
    with CaptureQueriesContext(connection) as ran:
        page = admin_client.get(f"{IMPORTS}{first.pk}/change/").text
    assert sum('last_id" IS NOT NULL' in query["sql"] for query in ran) == 1
    assert f'href="{IMPORTS}{batch.pk}/change/">staff.csv (import {batch.pk})</a> came later: undo it first.' in page
    assert "Undo this import" not in page
    assert f">{batch}</a>" in admin_client.get(IMPORTS).text
    for response in (admin_client.get(undo_url(first)), admin_client.post(undo_url(first))):
        assert refused in response.text
    with pytest.raises(CommandError, match=f"Import {first.pk} cannot be undone. {refused}"):
        call_command("undo_import", str(first.pk))
    assert Contact.objects.count() == 3


def test_interrupted_large_import_names_the_command(admin_client: Client, batch: ImportBatch, monkeypatch: Any) -> None:
    """On SQLite, where what it wrote stays."""
    monkeypatch.setattr(undo_admin, "MAX_ROWS", 2)
    monkeypatch.setattr(undo, "MAX_CHANGES", 1)
    ImportBatch.objects.filter(pk=batch.pk).update(state="running")
    begin_merge(batch, CONTACTS, Counts(added=2, changed=1))
    fail(batch, KeyboardInterrupt(), committed=2)
    batch.refresh_from_db()
    assert "2 added, 1 changed (planned)" in words(admin_client.get(IMPORTS).text)
    assert f"./run manage undo_import {batch.pk}" in admin_client.post(undo_url(batch)).text
    ImportBatch.objects.filter(pk=batch.pk).update(can_undo=False, counts={**batch.counts, "changed": 2})
    text = words(admin_client.get(f"{IMPORTS}{batch.pk}/change/").text)
    assert "2 rows were written." in text
    assert "It changed or removed more than 1 rows." in text


def test_undo_does_not_wait_for_an_import(admin_client: Client, batch: ImportBatch, monkeypatch: Any) -> None:
    def refuse(table: Any, *, wait: bool) -> None:
        assert (table, wait) == (CONTACTS, False)
        raise LockNotAvailable

    monkeypatch.setattr(Tables, "lock", staticmethod(refuse))
    assert "An import is running. Try again when it has finished." in admin_client.post(undo_url(batch)).text


def test_large_import_names_the_command(admin_client: Client, batch: ImportBatch, monkeypatch: Any) -> None:
    monkeypatch.setattr(undo_admin, "MAX_ROWS", 2)
    for response in (admin_client.get(undo_url(batch)), admin_client.post(undo_url(batch))):
        assert f"./run manage undo_import {batch.pk}" in response.text
    assert Contact.objects.count() == 3
    out = io.StringIO()
    call_command("undo_import", str(batch.pk), "--dry-run", stdout=out)
    call_command("undo_import", str(batch.pk), stdout=out)
    assert out.getvalue().splitlines() == [
        f"Import {batch.pk}: rows {undo.UndoResult(restored=1, deleted=2)}. Dry run: nothing was changed.",
        f"Import {batch.pk}: rows {undo.UndoResult(restored=1, deleted=2)}.",
    ]


def test_console_change_takes_the_row_from_its_import(admin_client: Client, batch: ImportBatch) -> None:
    row = Contact.objects.get(number=FIRST)
    admin_client.post(f"/admin/phonebook/contact/{row.pk}/change/", {"name": "Eve", "location": ""})
    row.refresh_from_db()
    assert (row.name, row.import_batch) == ("Eve", None)
