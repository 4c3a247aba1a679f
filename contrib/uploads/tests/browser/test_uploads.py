"""Importing a file in the console: upload, preview, progress, result and undo; and a process that is killed."""

import fcntl
import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from contrib.uploads.uploads import PART_BYTES
from tests.browser.conformance import assert_conforms
from tests.browser.pages import Page, assert_accessible, assert_not_cut, expect, screenshots
from tests.browser.test_forms import assert_focused
from tests.browser.watch import Watch
from tests.service import Service

pytestmark = pytest.mark.once

FORM = "/admin/phonebook/importbatch/upload/"
CONTACTS = "/admin/phonebook/contact/"
#: Statements for `manage.py shell`.
UPLOADS = "from contrib.uploads.models import ImportUpload; ImportUpload.objects"
FIRST = 12_125_550_100
#: The service with its process, on a busy machine.
WAIT_MS = 60_000


def checked(page: Page) -> None:
    expect(page.get_by_role("heading", name="Nothing has been changed yet")).to_be_visible(timeout=WAIT_MS)


def test_file_is_uploaded_checked_imported_and_undone(admin_page: Page, tmp_path: Path) -> None:
    page, file = admin_page, tmp_path / "people.csv"
    file.write_text(f"number,name,location\n{FIRST},Eve Example,Springfield\n{FIRST + 1},Ann,\n{FIRST},Bob,\n12,Zoe,\n")
    page.goto(f"{CONTACTS}add/")
    page.locator("#id_number").fill(f"+{FIRST}")
    page.locator("#id_name").fill("Old name")
    page.get_by_role("button", name="Save", exact=True).click()

    page.goto(CONTACTS)
    page.get_by_role("link", name="Import a file").click()
    page.get_by_role("link", name="Import complaints instead").click()
    expect(page.get_by_label("Source")).to_be_visible()
    page.get_by_role("link", name="Import contacts instead").click()
    expect(page.get_by_label("Region")).to_be_visible()
    screenshots(page, "upload")
    assert_not_cut(page)
    assert_accessible(page)
    assert_conforms(page)
    page.locator("#id_file").set_input_files(file)
    page.get_by_role("button", name="Upload and check").click()

    checked(page)
    expect(page.get_by_text("The import adds 1 contact and changes 1.")).to_be_visible()
    expect(page.get_by_role("row", name="+1 212 555 0100 Old name Eve Example · Springfield")).to_be_visible()
    expect(page.get_by_text("people.csv, line 5: Zoe: number")).to_be_visible()
    screenshots(page, "upload-preview")
    assert_not_cut(page)
    assert_accessible(page)
    assert_conforms(page)
    page.get_by_role("button", name="Import 2 rows").click()

    expect(page.get_by_text("1 added, 1 changed")).to_be_visible(timeout=WAIT_MS)
    expect(page.get_by_text("Done", exact=True)).to_be_visible()
    expect(page.get_by_text("people.csv, line 4: 1********00: repeats")).to_be_visible()
    screenshots(page, "upload-imported")
    page.get_by_role("link", name="Undo this import").click()
    page.get_by_role("button", name="Undo this import").click()
    expect(page.get_by_text("1 restored, 0 put back, 1 deleted").first).to_be_visible()


@contextmanager
def table_locked(service: Service) -> Iterator[None]:
    """As if another import were writing contacts."""
    with ExitStack() as opened:
        if url := service.env.get("DATABASE_URL"):
            connection = opened.enter_context(psycopg.connect(url, autocommit=True))
            connection.execute("SELECT pg_advisory_lock(hashtext('import into phonebook_contact'))")
        else:
            path = Path(service.env["CALLERID_DATA_DIR"]) / "phonebook_contact.lock"
            fcntl.flock(opened.enter_context(path.open("ab")), fcntl.LOCK_EX)
        yield


def process_of(service: Service) -> int:
    """The id of the process that imports an upload of this service."""
    data = f"CALLERID_DATA_DIR={service.env['CALLERID_DATA_DIR']}\0".encode()
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):  # another process, which has ended meanwhile
            if b"\0process_import\0" in (each / "cmdline").read_bytes() and data in (each / "environ").read_bytes():
                found.append(int(each.name))
    (process_id,) = found
    return process_id


def test_killed_import_has_failed_and_can_be_repeated(admin_page: Page, service: Service, tmp_path: Path) -> None:
    """Of a file in several parts; the response to the first one is lost, so that the browser sends it again."""
    page, file, rows = admin_page, tmp_path / "many.csv", 20_000
    file.write_text("number,name\n" + "".join(f"{FIRST + 100_000 + n},Somebody {n}\n" for n in range(rows)))
    sent: list[str] = []

    def lose_first_response(route: Any) -> None:
        sent.append(route.request.url.partition("?")[2])
        response = route.fetch()
        if len(sent) == 1:
            route.abort("aborted")
        else:
            route.fulfill(response=response)

    page.route(re.compile("/part/"), lose_first_response)
    page.goto("/admin/phonebook/importbatch/")
    page.get_by_role("link", name="Import a file").click()
    page.locator("#id_file").set_input_files(file)
    page.get_by_role("button", name="Upload and check").click()
    checked(page)
    offsets = range(0, file.stat().st_size, PART_BYTES)
    assert len(offsets) > 2
    assert [query.partition("&")[2] for query in sent] == [f"offset={n}" for n in (0, *offsets)]

    with table_locked(service):
        page.get_by_role("button", name="Import 20,000 rows").click()
        expect(page.get_by_text("Reading: row 20,000 of about 20,000.")).to_be_visible(timeout=WAIT_MS)
        screenshots(page, "upload-progress")
        assert_not_cut(page)
        assert_accessible(page)
        os.kill(process_of(service), signal.SIGKILL)
        silent = f"{UPLOADS}.update(seen_at='2026-01-01T00:00:00Z')"
        service.manage("shell", "-c", silent)
        expect(page.get_by_text("The import was interrupted. No contacts were changed.")).to_be_visible(timeout=WAIT_MS)
        screenshots(page, "upload-interrupted")
    page.goto(FORM)
    page.locator("#id_file").set_input_files(file)
    page.get_by_role("button", name="Upload and check").click()
    checked(page)
    page.get_by_role("button", name="Import 20,000 rows").click()
    expect(page.get_by_text("20,000 added")).to_be_visible(timeout=WAIT_MS)
    service.manage("undo_import", page.url.rstrip("/").split("/")[-2])


def test_upload_after_a_logout_says_so(admin_page: Page, service: Service, watch: Watch, tmp_path: Path) -> None:
    """Its parts are longer than what is read without a login."""
    page, file = admin_page, tmp_path / "people.csv"
    file.write_text("number,name\n".ljust(50_000))

    def log_out(route: Any) -> None:
        page.context.clear_cookies(name="sessionid")
        route.continue_()

    watch.expect_status(403)
    page.route(re.compile("/part/"), log_out)
    page.goto(FORM)
    page.locator("#id_file").set_input_files(file)
    page.get_by_role("button", name="Upload and check").click()
    expect(page.get_by_role("alert")).to_contain_text("You were logged out", timeout=WAIT_MS)
    page.get_by_role("alert").get_by_role("link", name="Log in").click()
    expect(page.get_by_label("Password")).to_be_visible()
    service.manage("shell", "-c", f"{UPLOADS}.all().delete()")


def test_upload_shows_errors_at_their_fields(admin_page: Page, watch: Watch) -> None:
    page = admin_page
    watch.expect_status(400)
    page.goto("/admin/phonebook/importbatch/upload/?kind=contacts")
    page.get_by_label("Region").fill("XX")
    page.get_by_label("Encoding").fill("none")
    page.locator("input[type=file]").set_input_files(
        {"name": "contacts.csv", "mimeType": "text/csv", "buffer": b"number,name\n+12125550142,Bakery\n"}
    )
    page.get_by_role("button", name="Upload and check").click()
    assert_focused(page.get_by_label("Region"))
    expect(page.locator("#id_encoding_error")).to_contain_text("cp1252")
