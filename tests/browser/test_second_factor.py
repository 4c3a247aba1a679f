"""A user sets up two-factor authentication, logs in with it, and removes it."""

import re
from collections.abc import Callable

import pytest

from tests import totp
from tests.browser.pages import PASSWORD, Page, assert_accessible, assert_not_cut, expect, login, screenshots
from tests.service import Service

pytestmark = pytest.mark.once

NAME = "second"


def look_at(page: Page, name: str) -> None:
    assert_accessible(page)
    assert_not_cut(page)
    screenshots(page, name)


def log_out(page: Page) -> None:
    page.get_by_role("button", name=NAME).press("Enter")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_text("Logged out")).to_be_visible()


def set_up(page: Page) -> list[str]:
    """The recovery codes, from the page of two-factor authentication on."""
    page.get_by_role("link", name="Set up").click()
    qr_code = page.get_by_role("img", name="QR code")
    expect(qr_code).to_be_visible()
    assert qr_code.evaluate("image => image.complete && image.naturalWidth > 0")
    look_at(page, "two-factor-set-up")
    secret = page.get_by_label("Or enter this secret").inner_text()
    for password in ("somebody else's password", PASSWORD):
        assert page.get_by_label("Or enter this secret").inner_text() == secret
        page.get_by_label("Password", exact=True).fill(password)
        page.get_by_label("Code", exact=True).fill(totp.code(secret))
        page.get_by_role("button", name="Turn on").click()
        if password != PASSWORD:
            expect(page.get_by_text("This password is not correct")).to_be_visible()
            look_at(page, "two-factor-set-up-refused")
    expect(page.get_by_text("Two-factor authentication is on.")).to_be_visible()
    codes = page.get_by_label("Recovery codes").inner_text().split()
    look_at(page, "two-factor-recovery-codes")
    page.get_by_role("link", name="I have made a copy").click()
    return codes


def test_two_factor_authentication_from_set_up_to_removal(
    service: Service, page: Page, command: Callable[..., str]
) -> None:
    make = (
        f"from django.contrib.auth.models import User; User.objects.create_superuser({NAME!r}, password={PASSWORD!r})"
    )
    service.manage("shell", "-c", make)
    login(page, NAME)
    page.get_by_role("button", name=NAME).press("Enter")
    page.get_by_role("link", name="Two-factor authentication").click()
    expect(page.get_by_text("Off. You log in with your password alone.")).to_be_visible()
    look_at(page, "two-factor-off")
    codes = set_up(page)
    expect(page).to_have_url("/admin/")
    log_out(page)

    login(page, NAME)
    expect(page).to_have_url(re.compile("/admin/second-factor/verify/"))
    expect(page.get_by_label("Code", exact=True)).to_be_focused()
    look_at(page, "two-factor-verify")
    page.get_by_label("Code", exact=True).fill("000000")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("This code is not valid")).to_be_visible()
    look_at(page, "two-factor-refused")
    page.get_by_label("Code", exact=True).fill(codes[0])
    page.get_by_role("button", name="Continue").click()
    expect(page).to_have_url("/admin/")

    page.goto("/admin/second-factor/")
    expect(page.get_by_text("9 recovery codes left")).to_be_visible()
    look_at(page, "two-factor-on")
    page.get_by_label("Password or code").fill(PASSWORD)
    page.get_by_label("Remove two-factor authentication").check()
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_text("Two-factor authentication was removed.")).to_be_visible()
    assert "has no two-factor authentication" in command("reset_2fa", NAME)
