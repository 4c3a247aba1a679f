"""What is kept to undo imports, and uploaded files, is erased with a number."""

import pytest
from django.test import Client

from console import erasure
from contrib.uploads.models import ImportChange, ImportUpload
from tests.phonebook.imports.loading import FIRST, Write, contacts

URL = "/admin/erase-a-number/"
NUMBER = f"+{FIRST}"


@pytest.fixture
def upload(admin_client: Client) -> ImportUpload:
    user_id = admin_client.session["_auth_user_id"]
    return ImportUpload.objects.create(user_id=user_id, kind="contacts", file_name="x", size=1)


@pytest.mark.usefixtures("upload")
def test_uploaded_files_do_not_tell_that_a_number_is_known(admin_client: Client) -> None:
    context = admin_client.post(URL, {"number": NUMBER}).context
    found = {title: count for title, _, count in context["rows"] if count}
    assert found == {"Uploaded files that are not imported yet, of all users": 1}
    assert context["is_unknown"]
    assert erasure.erase([str(FIRST)])["uploads"] == 1
    assert not ImportUpload.objects.exists()


def test_rows_kept_to_undo_imports_are_counted_and_erased(admin_client: Client, write: Write) -> None:
    for name in ("Ann", "Bob"):
        contacts(write, {0: name, 1: name})
    context = admin_client.post(URL, {"number": NUMBER}).context
    assert {title: count for title, _, count in context["rows"] if count} == {
        "Contacts": 1,
        "Rows kept to undo imports": 1,
    }
    assert not context["is_unknown"]
    assert erasure.erase([str(FIRST)])["import_changes"] == 1
    assert [row.number for row in ImportChange.objects.all()] == [FIRST + 1]
