"""What is kept to undo imports, and uploaded files, is erased with a number."""

import pytest
from django.test import Client

from console import erasure
from contrib.uploads.models import ImportChange, ImportUpload
from core.retention import NUMBERED
from tests.phonebook.imports.loading import FIRST, Write, contacts


@pytest.fixture
def upload(admin_client: Client) -> ImportUpload:
    user_id = admin_client.session["_auth_user_id"]
    return ImportUpload.objects.create(user_id=user_id, kind="contacts", file_name="x", size=1)


@pytest.mark.usefixtures("upload")
def test_uploaded_files_do_not_tell_that_a_number_is_known() -> None:
    assert counted() == {"uploads": 1}
    assert [each.is_of_any for each in NUMBERED if each.name == "uploads"] == [True]
    assert erasure.erase([str(FIRST)])["uploads"] == 1
    assert not ImportUpload.objects.exists()


@pytest.mark.django_db
def test_rows_kept_to_undo_imports_are_counted_and_erased(write: Write) -> None:
    for name in ("Ann", "Bob"):
        contacts(write, {0: name, 1: name})
    assert counted() == {"contacts": 1, "import_changes": 1}
    assert erasure.erase([str(FIRST)])["import_changes"] == 1
    assert [row.number for row in ImportChange.objects.all()] == [FIRST + 1]


def counted() -> dict[str, int]:
    return {name: count for name, count in erasure.count([str(FIRST)]).items() if count}
