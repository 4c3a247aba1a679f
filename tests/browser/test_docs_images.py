"""The pictures of the documentation. SCREENSHOTS_DIR=docs/images renews them (CONTRIBUTING.md)."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.pages import ADMIN, PASSWORD, expect, login
from tests.browser.watch import Watch
from tests.docs_site import PICTURES
from tests.service import Service, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.once, pytest.mark.slow]

# Prices and a vendor's statistics are shown; no vendor is called.
ENVIRONMENT = {
    "SOURCE_A": "directory,twilio,geography",
    "SOURCE_A_PRICE": "twilio=0.01",
    "TWILIO_ACCOUNT_SID": "AC00000000000000000000000000000000",
    "TWILIO_AUTH_TOKEN": "unused",
    "TWILIO_BASE_URL": "http://127.0.0.1:9",
}

_FILL = f"""
import json, math
from datetime import timedelta
from django.contrib.auth import get_user_model
from django.utils import timezone
from accounts import credits, tokens
from accounts.models import SearchHour, TokenDay
from lookup.imports.numbering_plan import installed_version
from lookup.imports.sample_data import load_sample_data
from lookup.models import Country, Dataset, NumberPrefix, SourceHour

get_user_model().objects.create_superuser({ADMIN!r}, password={PASSWORD!r})
load_sample_data()
NumberPrefix.objects.create(prefix=4930, place="Berlin")
Country.objects.create(code="DE", name="Germany")
now = timezone.now().replace(minute=0, second=0, microsecond=0)
yesterday = f"{{now - timedelta(days=1):%Y-%m-%d}}"
Dataset.objects.create(name="numbering-plan", version=installed_version(), rows=287_109)
Dataset.objects.create(name="complaints ftc", version=yesterday, rows=12_000)

issued = tokens.issue(name="Front desk", initial_credits=500, actor={ADMIN!r}, reason="Order 17")
tokens.issue(name="Support centre", initial_credits=25_000, actor={ADMIN!r}, reason="Order 12")
for n in range(6):
    request_id = f"5f3c9a0e7d1b48e2a6c4f09{{n:09x}}"
    credits.charge(token=issued.token, request_id=request_id, number="493023125555", answer={{}})
credits.top_up(token=issued.token, amount=200, actor={ADMIN!r}, reason="Invoice 2026-17", reference="2026-17")
search = issued.token.entries.filter(kind="search").latest("pk")
for back in range(24 * 30):
    hour = now - timedelta(hours=back)
    busy = 20 + int(90 * max(0, math.sin((hour.hour - 5) / 14 * math.pi)))
    counts = {{"found_both": busy, "found_one": busy // 3, "found_none": busy // 8, "found_degraded": busy // 40}}
    for outcome, count in counts.items():
        SearchHour.objects.get_or_create(hour=hour, outcome=outcome, defaults={{"count": count}})
for back in range(30):
    day = (now - timedelta(days=back)).date()
    for outcome, share in {{"found_both": 12, "found_one": 5, "found_none": 2, "rate_limited": back % 5 // 3}}.items():
        TokenDay.objects.create(token=issued.token, day=day, outcome=outcome, count=share + back % 4 if share else 0)
for slot, connector, outcome, count, bucket, us in (
    ("source_a", "directory", "found", 410, "ms_1", 700), ("source_a", "directory", "not_found", 790, "ms_1", 600),
    ("source_a", "twilio", "found", 520, "ms_250", 180_000), ("source_a", "twilio", "not_found", 61, "ms_100", 90_000),
    ("source_a", "twilio", "late", 4, "ms_2500", 1_600_000), ("source_a", "twilio", "cached_found", 205, None, 0),
    ("source_a", "geography", "found", 1_150, "ms_5", 1_200),
    ("source_b", "complaints", "found", 96, "ms_1", 400), ("source_b", "complaints", "not_found", 1_104, "ms_1", 400),
):
    SourceHour.objects.create(
        hour=now - timedelta(hours=1), slot=slot, connector=connector, outcome=outcome, count=count,
        total_us=count * us, **({{bucket: count}} if bucket else {{}}),
    )
for back in range(2, 24):
    at = now - timedelta(hours=back)
    busy = 100 + int(450 * max(0, math.sin((at.hour - 5) / 14 * math.pi)))
    late = back % 3 * 4
    for outcome, count in (("found", busy), ("not_found", busy // 5), ("cached_found", busy // 3), ("late", late)):
        slow = count // (20 + back % 7)
        half = (count - slow) // 2
        SourceHour.objects.create(
            hour=at, slot="source_a", connector="twilio", outcome=outcome, count=count,
            total_us=count * 150_000, ms_100=half, ms_250=count - slow - half, ms_500=slow,
        )
print(json.dumps({{"token": issued.token.pk, "search": search.pk, "key": issued.api_key}}))
"""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, dict[str, str]]]:
    shared = tmp_path_factory.getbasetemp()
    with serving(tmp_path_factory.mktemp("images"), ENVIRONMENT, shared=shared) as service:
        yield service, json.loads(service.manage("shell", "-c", _FILL).splitlines()[-1])


@pytest.fixture
def page(browser: "Browser", filled: tuple[Service, dict[str, str]]) -> Iterator["Page"]:
    service, _ = filled
    watch = Watch(service.url)
    with browser.new_context(base_url=service.url, color_scheme="light", reduced_motion="reduce") as context:
        watch.attach(context)
        yield context.new_page()
    assert not watch.problems, "\n".join(watch.problems)


def take(page: "Page", name: str, height: int, width: int = 1280) -> None:
    """Save what a window of this size shows, if SCREENSHOTS_DIR is set."""
    assert name in PICTURES
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_timeout(300)  # charts fit themselves to the window
    if directory := os.environ.get("SCREENSHOTS_DIR"):
        page.screenshot(path=Path(directory) / f"{name}.png")


def test_pictures_of_the_documentation(page: "Page", filled: tuple[Service, dict[str, str]]) -> None:
    _, made = filled
    page.goto("/")
    page.get_by_label("API token", exact=True).fill(made["key"])
    page.get_by_label("Phone number").fill("+49 30 23125555")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("#phone")).to_contain_text("Spam")
    expect(page.locator("#phone")).to_contain_text("Berlin")
    page.evaluate("scrollTo(0, 0)")
    take(page, "home-search", 880)

    login(page)
    expect(page.get_by_text("Numbering plan: healthy")).to_be_visible()
    take(page, "console-dashboard", 980)
    page.goto(f"/admin/accounts/apitoken/{made['token']}/change/")
    expect(page.get_by_role("link", name="Top up")).to_be_visible()
    take(page, "console-token", 860)
    page.goto(f"/admin/accounts/creditentry/{made['search']}/change/")
    expect(page.get_by_role("heading", name="Check a number")).to_be_visible()
    take(page, "console-ledger-entry", 1020)
    page.goto("/admin/lookup/usage/")
    expect(page.get_by_text("twilio").first).to_be_visible()
    take(page, "console-sources", 720)
    page.goto("/admin/lookup/usage/source/twilio/")
    expect(page.get_by_role("link", name="Pause")).to_be_visible()
    take(page, "console-source", 980)
    page.goto("/admin/lookup/usage/test/")
    page.get_by_label("Number", exact=True).fill("+49 30 23125555")
    page.get_by_role("button", name="Test", exact=True).click()
    expect(page.get_by_role("group", name="As a phone shows it")).to_contain_text("Spam")
    take(page, "console-test-a-number", 1120)
