"""The dashboard's first block in the browser: renewed while it is seen, and paused by a button or in a hidden tab."""

import pytest

from tests.browser.pages import Page, assert_accessible, expect
from tests.service import Service

pytestmark = pytest.mark.once

_LOG = """
from django.utils import timezone
from contrib.request_log.models import RequestLogEntry
known = dict(token_id=1, request_id="r", status=200, outcome="found_one", charged=False, replayed=False, duration_us=1)
RequestLogEntry.objects.bulk_create(RequestLogEntry(created_at=timezone.now(), **known) for _ in range(5_000))
"""
_HIDE = "hidden => Object.defineProperty(document, 'hidden', {value: hidden, configurable: true})"


def test_status_is_renewed_unless_paused_or_hidden(admin_page: Page, service: Service) -> None:
    asked: list[str] = []
    admin_page.on("request", lambda request: asked.append(request.url) if "/admin/status/" in request.url else None)
    admin_page.set_viewport_size({"width": 1280, "height": 800})
    admin_page.clock.install()
    admin_page.goto("/admin/")
    status = admin_page.get_by_role("region", name="Status")
    before = status.locator("strong").first.inner_text()
    service.manage("shell", "-c", _LOG)
    admin_page.evaluate(_HIDE, True)
    admin_page.clock.run_for(30_000)
    admin_page.evaluate(_HIDE, False)
    status.get_by_role("button", name="Pause updates").click()
    admin_page.clock.run_for(30_000)
    assert asked == []
    expect(status.locator("strong").first).to_have_text(before)
    status.get_by_role("button", name="Resume updates").click()
    expect(status.locator("strong").first).to_contain_text("a minute in the last 10 minutes, ")
    assert len(asked) == 1
    with admin_page.expect_response("**/admin/status/"):
        admin_page.clock.run_for(10_000)
    admin_page.clock.resume()
    assert_accessible(admin_page)
