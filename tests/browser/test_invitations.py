"""A superuser invites a user, who opens the e-mail's link, sets a password and a device, and sees the dashboard."""

import re

import pytest

from tests import totp
from tests.browser.conformance import assert_conforms
from tests.browser.pages import Page, assert_not_cut, assert_title_not_cut, expect, screenshots
from tests.browser.watch import Watch
from tests.smtp import Mailbox

pytestmark = pytest.mark.once

PASSWORD = "a password of her own"


def look_at(page: Page, name: str) -> None:
    expect(page.get_by_role("main")).to_be_visible()
    assert_conforms(page)
    assert_not_cut(page)
    assert_title_not_cut(page)
    screenshots(page, name)


def test_invitation_from_the_form_to_the_dashboard(
    admin_page: Page, page: Page, mailbox: Mailbox, watch: Watch
) -> None:
    admin_page.goto("/admin/auth/user/invite/")
    admin_page.get_by_role("button", name="Invite a user").click()
    expect(admin_page.get_by_label("Username")).to_be_focused()
    look_at(admin_page, "invite-errors")
    admin_page.get_by_label("Username").fill("olga")
    admin_page.get_by_label("E-mail address").fill("olga@example.org")
    admin_page.get_by_label("operator").check()
    admin_page.get_by_role("button", name="Invite a user").click()
    expect(admin_page.get_by_text("The invitation was sent to olga@example.org.")).to_be_visible()
    screenshots(admin_page, "invited-user")

    message = next(message for message in mailbox.messages if message["To"] == "olga@example.org")
    link = re.search(r"http\S+/admin/invitation/\S+", message.get_content())
    assert link
    page.goto(link[0])
    expect(page).to_have_url(re.compile("/set-password/$"))
    look_at(page, "invitation")
    for password in ("short", PASSWORD):
        page.get_by_label("New password", exact=True).fill(password)
        page.get_by_label("New password confirmation").fill(password)
        page.get_by_role("button", name="Set password").click()
        if password == "short":
            expect(page.get_by_text("This password is too short.")).to_be_visible()
            look_at(page, "invitation-refused")
    expect(page).to_have_url("/admin/second-factor/set-up/")
    look_at(page, "invitation-two-factor")
    secret = page.get_by_label("Or enter this secret").inner_text()
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Code", exact=True).fill(totp.code(secret))
    page.get_by_role("button", name="Turn on").click()
    page.get_by_role("link", name="I have made a copy").click()
    expect(page.get_by_role("heading", name="Dashboard")).to_be_visible()

    watch.expect_status(404)
    page.get_by_role("button", name="olga").press("Enter")
    page.get_by_role("button", name="Log out").click()
    page.goto(link[0])
    expect(page.get_by_text("This link does not work", exact=True)).to_be_visible()
    look_at(page, "invitation-invalid")
