"""The test alert in the browser: queued by a button, sent by the command, and shown among the notices."""

import pytest

from tests.browser.pages import Page, assert_accessible, expect, screenshots
from tests.service import Service
from tests.smtp import Mailbox

pytestmark = pytest.mark.once


def test_test_alert_arrives_and_is_listed(admin_page: Page, service: Service, mailbox: Mailbox) -> None:
    before = len(mailbox.messages)
    admin_page.goto("/admin/alerts/incident/")
    admin_page.get_by_role("link", name="Send test alert").click()
    assert_accessible(admin_page)
    admin_page.get_by_role("button", name="Send test alert").click()
    expect(admin_page.get_by_text("Test alert queued")).to_be_visible()
    assert_accessible(admin_page)
    screenshots(admin_page, "test-alert-queued")
    service.manage("send_test_alert")  # sends all that is due
    # Other tests may have added recipients.
    sent = [each for each in mailbox.messages[before:] if each["To"] == "operations@example.org"]
    assert [str(each["Subject"]) for each in sent] == ["[Caller ID] Test alert"] * 2
    admin_page.goto("/admin/alerts/notice/")
    row = admin_page.get_by_role("row").filter(has_text="Test alert").filter(has_text="operations@example.org").first
    expect(row).to_contain_text("Sent 20")
