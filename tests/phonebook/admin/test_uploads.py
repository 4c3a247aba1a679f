"""The pages of uploads: for whom, what they refuse, and what they show."""

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from core.admin import page_url
from phonebook.imports import uploads
from phonebook.models import ImportBatch, ImportUpload
from tests.console_pages import words

pytestmark = pytest.mark.django_db

FORM = "/admin/phonebook/importbatch/upload/"
CSV = b"number,name\n+12125550100,Eve\n"


@pytest.fixture
def operator() -> Client:
    return logged_in("olga")


def logged_in(name: str) -> Client:
    user = User.objects.create_user(name, is_staff=True)
    user.groups.add(Group.objects.get(name="operator"))
    client = Client()
    client.force_login(user)
    return client


def begin(client: Client, **fields: Any) -> Any:
    return client.post(FORM, {"what": "contacts", "file_name": "people.csv", "size": len(CSV), **fields})


def send(
    client: Client, url: str, content: bytes = CSV, offset: Any = 0, kind: str = "application/octet-stream"
) -> Any:
    return client.post(f"{url}?offset={offset}", content, content_type=kind)


def test_file_is_received_in_parts(operator: Client) -> None:
    urls = begin(operator, what="contacts:vcard", region="us", source="desk", encoding="cp1252").json()
    batch = ImportBatch.objects.get()
    assert (batch.by, batch.state, batch.options) == (
        "olga",
        "uploading",
        {"format": "vcard", "region": "US", "encoding": "cp1252"},
    )
    assert "The upload was not completed" in operator.get(urls["page"]).text
    for _ in range(2):  # also when it is sent again
        assert send(operator, urls["part"]).json() == {"received": len(CSV)}
    batch.refresh_from_db()
    assert batch.state == "checking"
    progress = page_url(ImportBatch, "progress", batch.pk)
    assert operator.get(progress).json() == {"state": "Being checked", "text": "Waiting for the process to start."}
    ImportUpload.objects.update(done=1_234, total=5_000, step="Reading")
    shown = operator.get(progress)
    assert shown.json()["text"] == "Reading: row 1,234 of about 5,000."
    assert len(shown.content) < 300
    assert "Reading: row 1,234 of about 5,000." in operator.get(urls["page"]).text


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            {"size": uploads.MAX_BYTES + 1},
            "The file has more than 20 MB. Compress it with gzip, or import it by a command.",
        ),
        ({"size": 0}, "The file is empty."),
        ({"region": "XX"}, "Region: Enter an ISO 3166-1 code such as US."),
        ({"encoding": "utf-99"}, "Encoding: Enter the name of an encoding such as cp1252."),
        ({"what": "complaints", "source": "x" * 33}, "Source: The source must have 1 to 32 characters."),
        (
            {"what": "recipes"},
            "What is in the file: Select a valid choice. recipes is not one of the available choices.",
        ),
    ],
)
def test_refused_form_says_why(operator: Client, fields: dict[str, Any], says: str) -> None:
    response = begin(operator, **fields)
    assert (response.status_code, response.json()) == (400, {"errors": [says]})
    assert not ImportBatch.objects.exists()


def test_request_that_is_no_part_is_refused(operator: Client) -> None:
    url = begin(operator).json()["part"]
    assert operator.get(url).status_code == 400
    for offset in ("", "-1", "x", "9" * 30, 1, len(CSV)):
        assert send(operator, url, offset=offset).status_code in (400, 409)
    for content in (CSV[:-1], CSV + b"x"):
        assert send(operator, url, content).status_code == 409
    for kind in ("application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain"):
        assert send(operator, url, kind=kind).status_code == 400
    assert ImportUpload.objects.get().received == 0


def test_pages_of_an_upload_are_its_users_alone(operator: Client) -> None:
    urls = begin(operator).json()
    batch = ImportBatch.objects.get()
    step, progress = (page_url(ImportBatch, name, batch.pk) for name in ("step", "progress"))
    other = logged_in("eve")
    answers = [send(other, urls["part"]), other.get(progress)]
    answers += [other.post(step, {"step": name}) for name in ("import", "restart", "discard")]
    assert [each.status_code for each in answers] == [404] * 5
    assert "The upload was not completed" not in other.get(urls["page"]).text
    assert ImportUpload.objects.get().received == 0


@pytest.mark.parametrize("missing", ["add_contact", "change_contact", "delete_contact"])
def test_each_permission_is_needed_at_every_step(operator: Client, missing: str) -> None:
    urls = begin(operator).json()
    batch = ImportBatch.objects.get()
    Group.objects.get(name="operator").permissions.remove(Permission.objects.get(codename=missing))
    step, progress = (page_url(ImportBatch, name, batch.pk) for name in ("step", "progress"))
    answers = [send(operator, urls["part"]), operator.get(progress), operator.post(step, {"step": "discard"})]
    answers.append(operator.get("/admin/phonebook/contact/import-file/"))
    assert [each.status_code for each in answers] == [403] * 4
    assert begin(operator).status_code == 400  # complaints can still be imported
    assert "Contacts: recognize" not in operator.get(FORM).text
    assert "Complaints: recognize" in operator.get(FORM).text
    assert "Uploaded file" not in operator.get(urls["page"]).text
    assert ImportUpload.objects.get().received == 0


def test_steps_lead_to_where_the_upload_is(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(operator)
    batch = ImportBatch.objects.get()
    step = page_url(ImportBatch, "step", batch.pk)
    for name, says in {
        "import": "This file is not waiting to be imported.",
        "restart": "This import is not interrupted.",
    }.items():
        assert says in words(operator.post(step, {"step": name}, follow=True).text)
    done = operator.post(step, {"step": "discard"}, follow=True)
    assert "The file was discarded." in words(done.text)
    assert done.redirect_chain == [("/admin/phonebook/importbatch/", 302)]
    assert not ImportBatch.objects.exists()
    assert operator.post(step, {"step": "discard"}).status_code == 404


def test_list_shows_states_and_button_with_fixed_statements(
    operator: Client, django_assert_num_queries: Any, django_assert_max_num_queries: Any
) -> None:
    begin(operator)
    ImportBatch.objects.update(state="checking")
    ImportUpload.objects.update(seen_at="2026-01-01T00:00:00Z")
    with django_assert_max_num_queries(12):
        text = words(operator.get("/admin/phonebook/importbatch/").text)
    assert "Import a file" in text
    assert "Interrupted" in text
    assert "Start again" in operator.get(page_url(ImportBatch, "change", ImportBatch.objects.get().pk)).text
