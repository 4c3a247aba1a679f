"""The pages of uploads: for whom, what they refuse, and what they show."""

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from contrib.uploads import uploads
from contrib.uploads.models import ImportUpload
from core.cells import page_url
from phonebook.models import ImportBatch
from tests.console_pages import words

pytestmark = pytest.mark.django_db

FORM = "/admin/phonebook/importbatch/upload/"
STEP, PROGRESS = f"{FORM}step/", f"{FORM}progress/"
CSV = b"number,name\n+12125550100,Eve\n"
ENCODING = {"fields": {"encoding": "Enter the name of an encoding such as cp1252."}}


@pytest.fixture(autouse=True)
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "run_waiting", lambda: None)


@pytest.fixture
def operator() -> Client:
    return logged_in("olga")


def logged_in(name: str, role: str = "operator") -> Client:
    user = User.objects.create_user(name, is_staff=True)
    user.groups.add(Group.objects.get(name=role))
    client = Client()
    client.force_login(user)
    return client


def begin(client: Client, kind: str = "contacts", **fields: Any) -> Any:
    return client.post(f"{FORM}?kind={kind}", {"file_name": "people.csv", "size": len(CSV), **fields})


def send(
    client: Client, url: str, content: bytes = CSV, offset: Any = 0, kind: str = "application/octet-stream"
) -> Any:
    return client.post(f"{url}&offset={offset}", content, content_type=kind)


def test_file_is_received_in_parts(operator: Client) -> None:
    url = begin(operator, format="csv", region="us", source="desk", encoding="cp1252").json()["part"]
    upload = ImportUpload.objects.get()
    assert (upload.user.username, upload.state) == ("olga", "uploading")
    assert upload.options == {"format": "csv", "region": "US", "encoding": "cp1252"}
    assert "The upload was not completed" in operator.get(FORM).text
    for _ in range(2):  # also when it is sent again
        assert send(operator, url).json() == {"received": len(CSV)}
    upload.refresh_from_db()
    assert upload.state == "checking"
    assert operator.get(PROGRESS).json()["text"] == "Waiting for the process to start."
    ImportUpload.objects.update(done=1_234, total=5_000, step="Reading")
    shown = operator.get(PROGRESS)
    assert (shown.json()["state"], shown.json()["text"]) == ("Being checked", "Reading: row 1,234 of about 5,000.")
    assert len(shown.content) < 300
    assert "Reading: row 1,234 of about 5,000." in operator.get(FORM).text


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            {"size": uploads.MAX_BYTES + 1},
            {"errors": ["The file has more than 20 MB. Compress it with gzip, or use the command."]},
        ),
        ({"size": 0}, {"errors": ["The file is empty."]}),
        ({"region": "XX"}, {"fields": {"region": "Enter an ISO 3166-1 code such as US."}}),
        *(({"encoding": bad}, ENCODING) for bad in ("utf-99", "utf-7", "unicode_escape", "rot13")),
        (
            {"kind": "complaints", "source": "x" * 33},
            {"fields": {"source": "Ensure this value has at most 32 characters (it has 33)."}},
        ),
        ({"format": "ftc"}, {"fields": {"format": "Select a valid choice. ftc is not one of the available choices."}}),
    ],
)
def test_refused_form_says_why(operator: Client, fields: dict[str, Any], says: dict[str, Any]) -> None:
    response = begin(operator, **fields)
    assert (response.status_code, response.json()) == (400, {"errors": [], "fields": {}} | says)
    assert not ImportUpload.objects.exists()


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


def step(client: Client, name: str, upload: ImportUpload) -> str:
    """What the page says after one of its buttons."""
    return words(client.post(STEP, {"step": name, "upload": upload.pk}, follow=True).text)


def test_upload_is_its_users_alone(operator: Client) -> None:
    url = begin(operator).json()["part"]
    upload, other = ImportUpload.objects.get(), logged_in("eve")
    assert send(other, url).status_code == 409
    assert other.get(PROGRESS).json() == {"state": ""}
    for name in ("import", "discard"):
        assert "was imported, discarded or replaced" in step(other, name, upload)
    assert "people.csv" not in other.get(FORM).text
    assert ImportUpload.objects.get().received == 0


@pytest.mark.parametrize("missing", ["add_contact", "change_contact", "delete_contact"])
def test_each_permission_is_needed_at_every_step(operator: Client, missing: str) -> None:
    url = begin(operator).json()["part"]
    upload, group = ImportUpload.objects.get(), Group.objects.get(name="operator")
    group.permissions.remove(Permission.objects.get(codename=missing))
    assert send(operator, url).status_code == 409
    assert operator.get(PROGRESS).json() == {"state": ""}
    assert "was imported, discarded or replaced" in step(operator, "discard", upload)
    assert operator.get("/admin/phonebook/contact/import-file/").status_code == 403
    for kind in ("contacts", "recipes"):
        assert operator.get(f"{FORM}?kind={kind}").status_code == 403
        assert begin(operator, kind).status_code == 403
    page = words(operator.get(FORM).text)
    assert "Import complaints" in page
    assert "Import contacts" not in page
    assert "people.csv" not in page
    assert ImportUpload.objects.get().received == 0
    group.permissions.remove(Permission.objects.get(codename="add_complaintday"))
    for page in (FORM, PROGRESS):
        assert operator.get(page).status_code == 403


def test_check_and_import_are_confirmed_once(operator: Client) -> None:
    begin(operator)
    upload = ImportUpload.objects.get()
    assert "This file is not waiting to be imported." in step(operator, "import", upload)
    counts = {"read": 4, "added": 1, "unchanged": 1, "rejected": {"no number": 2}}
    ImportUpload.objects.update(state="ready", counts=counts, received=len(CSV))
    page = words(operator.get(FORM).text)
    assert "The import adds 1 contact and does not change 1." in page
    assert "2 of 4 rows are not imported: no number (2)." in page
    fault = {"file": "people.csv", "line": 2, "reason": "no number", "number": "", "detail": "", "contact": ""}
    for listed, heading in ((1, "First rows not imported"), (2, "Rows not imported")):
        ImportUpload.objects.update(faults=[fault] * listed)
        assert f">{heading}</h2>" in operator.get(FORM).text
    assert "Earlier imports" not in page
    before = ImportBatch.objects.create(kind="contacts", state="done", can_undo=True)
    earlier = f"from earlier imports (import {before.pk}), those can then be undone only after this one."
    assert earlier in words(operator.get(FORM).text)
    before.delete()
    assert "Waiting for the process to start." in step(operator, "import", upload)
    batch = ImportBatch.objects.get()
    assert (batch.state, batch.by, batch.file_name) == ("running", "olga", "people.csv")
    assert operator.get(FORM).headers["Location"] == page_url(ImportBatch, "change", batch.pk)
    for name, role in (("eve", "operator"), ("ann", "auditor")):
        shown = logged_in(name, role).get(page_url(ImportBatch, "change", batch.pk))
        assert (shown.status_code, "Waiting for the process" in shown.text) == (200, False)
    assert begin(operator).status_code == 409


def test_upload_can_be_discarded(operator: Client) -> None:
    begin(operator)
    upload = ImportUpload.objects.get()
    assert "The file was discarded." in step(operator, "discard", upload)
    assert not ImportUpload.objects.exists()
    assert "was imported, discarded or replaced" in step(operator, "discard", upload)


def test_page_says_why_a_check_failed(operator: Client) -> None:
    begin(operator)
    ImportUpload.objects.update(state="checking", seen_at="2026-01-01T00:00:00Z")
    page = words(operator.get(FORM).text)
    assert "The check failed: Interrupted. Discard the file, and upload it again." in page
    assert "Import 0 rows" not in page


def test_list_offers_the_upload_with_fixed_statements(operator: Client, django_assert_max_num_queries: Any) -> None:
    begin(operator)
    with django_assert_max_num_queries(12):
        assert "Import a file" in words(operator.get("/admin/phonebook/importbatch/").text)


def test_preview_shows_all_rows_page_by_page(operator: Client) -> None:
    begin(operator)
    rows = [{"number": f"121255501{n:02}", "key": "", "before": "", "after": f"Name {n}"} for n in range(28)]
    ImportUpload.objects.update(state=ImportUpload.State.READY, preview=rows, counts={"added": 28, "read": 28})
    pages = [words(operator.get(FORM, {"p": number}).text) for number in ("1", "2", "x")]
    assert "Name 0" in pages[0]
    assert "Name 25" not in pages[0]
    assert "Rows 1 to 25 of 28 Next" in pages[0]
    assert "Name 27" in pages[1]
    assert "Previous Rows 26 to 28 of 28" in pages[1]
    assert "Rows 1 to 25 of 28" in pages[2]
    ImportUpload.objects.update(counts={"added": 2_000, "read": 2_000})
    assert "Rows 26 to 28 of 2,000 The preview ends here." in words(operator.get(FORM, {"p": "2"}).text)
