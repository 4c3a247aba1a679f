"""The Imports page: what it shows."""

import io
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from core.history import command_actor
from phonebook.imports.batches import fail
from phonebook.models import ImportBatch
from tests.console_pages import words

pytestmark = pytest.mark.django_db

IMPORTS = "/admin/phonebook/importbatch/"
FIRST = 12_125_550_100


@pytest.fixture
def batch(file: Any) -> ImportBatch:
    """It added a contact, and rejected a row."""
    path = file(f"number,name\n{FIRST},Bob\n12,Eve\n", "people.csv")
    call_command("import_contacts", path, "--region", "US", stdout=io.StringIO(), stderr=io.StringIO())
    return ImportBatch.objects.latest("pk")


def test_list_and_page_show_what_an_import_did(admin_client: Client, batch: ImportBatch) -> None:
    text = words(admin_client.get(IMPORTS).text)
    assert f"{command_actor()} Contacts people.csv" in text
    assert "1 added, 1 rejected" in text
    text = words(admin_client.get(f"{IMPORTS}{batch.pk}/change/").text)
    assert "people.csv, line 3: Eve: number" in text
    assert "region: US" in text


@pytest.mark.parametrize(("repeated", "more"), [(0, False), (2_000, True)])
def test_page_says_how_many_rows_it_does_not_list(
    admin_client: Client, batch: ImportBatch, repeated: int, more: bool
) -> None:
    ImportBatch.objects.filter(pk=batch.pk).update(counts={**batch.counts, "repeated": repeated})
    text = words(admin_client.get(f"{IMPORTS}{batch.pk}/change/").text)
    assert "Rows not imported" in text
    assert ("and 2,000 more" in text) is more


def test_page_says_why_an_import_failed(admin_client: Client, batch: ImportBatch) -> None:
    ImportBatch.objects.filter(pk=batch.pk).update(state="running")
    fail(batch, KeyboardInterrupt(), committed=0)
    text = words(admin_client.get(f"{IMPORTS}{batch.pk}/change/").text)
    assert "The import was interrupted. No contacts were changed. Import the file again." in text
