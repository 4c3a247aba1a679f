"""Looking up a file in the console: token, upload, cost, progress and result."""

from pathlib import Path

import pytest

from tests.browser.conformance import assert_conforms
from tests.browser.pages import Page, assert_accessible, assert_not_cut, expect, screenshots
from tests.service import Service

pytestmark = pytest.mark.once

#: The service with its process, on a busy machine.
WAIT_MS = 60_000


def looks_right(page: Page, name: str) -> None:
    screenshots(page, name)
    assert_not_cut(page)
    assert_accessible(page)
    assert_conforms(page)


def test_file_is_looked_up(admin_page: Page, service: Service, tmp_path: Path) -> None:
    page, file = admin_page, tmp_path / "callers.csv"
    file.write_text("name;number\nאבג;+1 212 555 0100\nx;12\ny;12125550101\nz;12125550100\n")
    service.manage("create_token", "File desk", "--credits", "10", "--quiet")
    page.goto("/admin/file_lookups/filelookup/")
    page.get_by_role("link", name="Upload numbers to look up").first.click()
    looks_right(page, "lookup-upload")
    page.locator("#id_file").set_input_files(file)
    page.get_by_role("button", name="Upload and check").click()

    expect(page.get_by_text("2 different numbers: 2 credits at most")).to_be_visible(timeout=WAIT_MS)
    expect(page.get_by_text("Line 3: invalid phone number")).to_be_visible()
    looks_right(page, "lookup-ready")
    page.get_by_role("link", name="Start").click()
    page.wait_for_load_state()  # of the script that suggests
    page.locator("#id_token").press_sequentially("File de")
    suggestion = page.locator(".suggestions > li", has_text="File desk")
    expect(suggestion).to_contain_text("10 credits")
    suggestion.click()
    looks_right(page, "lookup-start")
    page.get_by_role("button", name="Start").click()

    expect(page.get_by_text("Done", exact=True)).to_be_visible(timeout=WAIT_MS)
    expect(page.get_by_text("2 credits (request id")).to_be_visible()
    looks_right(page, "lookup-done")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "callers-answers.csv"
    lines = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
    assert [line.split(";")[3] for line in lines] == ["outcome", "found", "invalid", "not_found", "found"]
    assert lines[1].startswith("אבג;+1 212 555 0100;12125550100;found;")

    page.goto("/admin/file_lookups/filelookup/")
    expect(page.get_by_role("link", name="callers.csv")).to_be_visible()
    looks_right(page, "lookup-list")
    page.get_by_role("link", name="callers.csv").click()
    page.get_by_role("link", name="Discard").click()
    page.get_by_role("button", name="Discard").click()
    expect(page.get_by_text("The file and its answers were deleted.")).to_be_visible()
