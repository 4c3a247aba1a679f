"""A source's page: its state, figures, check and configuration; pausing and resuming it."""

import json
import re
import threading
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test import Client
from django.utils import timezone

from core import write_buffer
from core.hooks import Hook
from lookup import source_actions
from lookup.models import SourceCheck, SourcePause
from monitoring import hooks, source_report
from monitoring.models import SourceHour, SourceResult
from monitoring.source_statistics import advice
from tests import connectors, upstream
from tests.accounts.admin.pages import query_count
from tests.console.dashboard_rows import NOW, add_result, count_calls
from tests.console_pages import figures, table, words
from tests.mock_vendors import KEYS, Vendors

pytestmark = pytest.mark.django_db

REMOTE = "tests.connectors.RemoteKnows"
add, failed = count_calls, partial(add_result, connector=REMOTE)


def url(name: str, action: str = "") -> str:
    return f"/admin/monitoring/source/{name}/{action or 'change/'}"


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.SOURCE_A, settings.SOURCE_B = f"tests.connectors.Knows,{REMOTE}", f"{REMOTE},tests.connectors.Knows"
    settings.SOURCE_A_PRICE, settings.SOURCE_B_PRICE = {"*": Decimal("0.01")}, {}
    monkeypatch.setattr(timezone, "now", lambda: NOW)


def state(client: Client, name: str = REMOTE) -> str:
    return figures(re.sub(r"\s+", " ", client.get(url(name)).text))["State"]


# --- The page -----------------------------------------------------------------------------------------------------


def test_page_shows_figures_of_both_slots(frozen: None, admin_client: Client) -> None:
    add("found", 60, total_us=1_200_000, ms_25=60)
    add("late", 2, hours_ago=3, total_us=6_000_000, ms_more=2)
    add("paused", 5, hours_ago=3, total_us=0, ms_1=5)
    add("cached_found", 1_000, slot="source_b", total_us=0, ms_1=1_000)
    add("found", 7, hours_ago=30)  # before the period
    page = admin_client.get(url(REMOTE)).text
    shown = figures(re.sub(r"\s+", " ", page))
    assert shown["Calls"] == "62 in 24 hours"
    assert shown["Failed"] == "7 late 2, paused 5"
    assert shown["Cached answers"] == "1,000 cost nothing"
    assert shown["Cost"] == "unknown no price set"  # source_b has none
    rows = table(page, "Lookups by hour")
    assert len(rows) == 24
    assert rows[-1] == ["2026-03-09 14:00", "60", "60", "0", "0", "1,000", "18", "24"]
    assert rows[-4] == ["2026-03-09 11:00", "2", "0", "0", "7 late 2, paused 5", "0", "over 2,500", "over 2,500"]


@pytest.mark.parametrize(
    ("query", "label", "steps"),
    [
        ({}, "hour", 24),
        ({"period": "7d"}, "day", 7),
        ({"period": "30d"}, "day", 30),
        ({"period": "month"}, "day", 9),
        ({"period": "x"}, "hour", 24),
    ],
)
def test_chart_and_table_have_each_step(
    frozen: None, admin_client: Client, query: dict[str, str], label: str, steps: int
) -> None:
    add("found", 2, total_us=60_000, ms_50=2)
    response = admin_client.get(url(REMOTE), query)
    rows = table(response.text, f"Lookups by {label}")
    charts = response.context["charts"]
    assert len(rows) == steps
    outcomes, latency = (json.loads(charts[name]["data"]) for name in ("outcomes", "latency"))
    assert [len(data["data"]) for data in (*outcomes["datasets"], *latency["datasets"])] == [steps] * 6
    assert (outcomes["datasets"][0]["data"][-1], latency["datasets"][0]["data"][-1]) == (2, 37.5)
    assert latency["datasets"][0]["data"][0] is None


def test_days_have_the_sums_of_their_hours(frozen: None, admin_client: Client) -> None:
    for hours_ago, count in ((0, 17), (1, 10), (14, 100), (15, 1_000), (38, 10_000), (39, 100_000)):
        add("found", count, hours_ago=hours_ago, total_us=count, ms_1=count)
    add("late", 3, slot="source_b")
    rows = table(admin_client.get(url(REMOTE), {"period": "30d"}).text, "Lookups by day")
    assert [row[:3] for row in rows[-3:]] == [
        ["2026-03-07", "100,000", "100,000"],
        ["2026-03-08", "11,000", "11,000"],
        ["2026-03-09", "130", "127"],
    ]
    failed("late", seconds_ago=10)
    SourceResult.objects.create(connector=REMOTE, last_ms=round(NOW.timestamp() * 1000))
    page = words(admin_client.get(url(REMOTE), {"period": "30d"}).text)
    assert "failing late: no reply in time" in page  # 3 of this hour's 20


def test_last_month_is_without_this_month(frozen: None, admin_client: Client) -> None:
    since_march = 8 * 24 + 14
    for hours_ago, count in ((since_march, 1), (since_march + 1, 20), (since_march + 28 * 24, 300)):
        add("found", count, hours_ago=hours_ago, total_us=count, ms_1=count)
    add("found", 4_000, hours_ago=since_march + 28 * 24 + 1, total_us=1, ms_1=1)
    add("late", 1, slot="source_b", hours_ago=since_march + 1)
    page = admin_client.get(url(REMOTE), {"period": "last-month"}).text
    shown = figures(re.sub(r"\s+", " ", page))
    assert shown["Calls"] == "321 last month"
    rows = table(page, "Lookups by day")
    assert [rows[0][:2], rows[-1][:2], len(rows)] == [["2026-02-01", "300"], ["2026-02-28", "21"], 28]
    listed = words(admin_client.get("/admin/monitoring/source/", {"period": "last-month"}).text)
    assert "Sources in February 2026" in listed
    assert "Total cost of calls that have a price: 3.20 USD." in listed
    assert (
        figures(admin_client.get(url(REMOTE), {"period": "month"}).text.replace("\n", " "))["Calls"] == "1 this month"
    )


def test_number_of_statements_is_fixed(frozen: None, admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "FAILING_SINCE", ())  # add-ons have statements of their own

    def statements(period: str) -> int:
        return query_count(admin_client, f"{url(REMOTE)}?period={period}")

    # Session, user, TOTP device; the state (5), slots (2), sums (2), results, and the pause for the actions.
    assert statements("24h") == 3 + 11
    for hours_ago in range(200):
        add("found", 1, hours_ago=hours_ago)
        failed(f"r-{hours_ago}".translate(str.maketrans("0123456789", "abcdefghij")), seconds_ago=hours_ago)
    SourceCheck.objects.create(connector=REMOTE, started_by="olga", started_at=NOW, finished_at=NOW)
    assert [statements(period) for period in ("24h", "7d", "month")] == [14, 14, 14]


def test_state_is_the_most_urgent_one(frozen: None, admin_client: Client) -> None:
    assert state(admin_client) == "no calls Not called in this period."
    add("found", 1)
    assert state(admin_client) == "healthy"
    failed("auth", seconds_ago=20, hint="Check the key.")
    reason = f"auth: the vendor rejected the key Check the key. {advice('auth', REMOTE)}"
    assert state(admin_client) == f"failing {reason}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_report, "failing_since", lambda now: {REMOTE: now - timedelta(hours=1)})
        assert state(admin_client) == f"failing Since 2026-03-09 13:20 UTC. {reason}"
    failed("breaker", seconds_ago=5)
    stopped = "Circuit breakers stop calls after failures, and let one through from time to time."
    assert state(admin_client) == f"failing {stopped} {reason}"
    SourcePause.objects.create(connector=REMOTE, reason="invoice", paused_by="olga", paused_at=NOW)
    assert state(admin_client) == "paused by olga since 14:20: invoice. Resume"


def test_last_failures_have_reason_advice_and_time(frozen: None, admin_client: Client) -> None:
    failed("auth", seconds_ago=20, hint="Check the key.")
    failed("late", seconds_ago=90)
    failed("late", seconds_ago=10, connector="other")
    assert table(admin_client.get(url(REMOTE)).text, "Last failures") == [
        [
            "2026-03-09 14:20:10",
            "auth: the vendor rejected the key Check the key.",
            advice("auth", REMOTE),
        ],
        ["2026-03-09 14:19:00", "late: no reply in time", advice("late", REMOTE)],
    ]


def test_last_failures_are_those_of_each_reason_and_message(frozen: None, admin_client: Client) -> None:
    failed("auth", seconds_ago=90, hint="401: the key is rejected")
    failed("auth", seconds_ago=20, hint="403: the account is closed")
    text = admin_client.get(url(REMOTE)).text
    assert len(table(text, "Last failures")) == 2
    assert "The last failed call for each reason and message" in text


def test_unknown_source_is_not_found(frozen: None, admin_client: Client) -> None:
    for name in ("nobody", "operator%20rules", "a/b", "%00", "x" * 3000):
        assert admin_client.get(url(name)).status_code == 404
        for action in ("check-now/", "pause/", "resume/"):
            assert admin_client.post(url(name, action), {"reason": "x"}).status_code == 404
    assert not LogEntry.objects.exists()


def test_source_that_is_no_longer_configured_has_a_page(frozen: None, admin_client: Client) -> None:
    add("found", 1, connector="gone")
    assert state(admin_client, "gone") == "no calls No longer configured."
    SourcePause.objects.create(connector="gone2", reason="r", paused_by="olga", paused_at=NOW)
    assert "Resume" in admin_client.get(url("gone2")).text


def test_sources_page_links_each_source(frozen: None, admin_client: Client) -> None:
    add("found", 1, connector="operator rules")
    SourcePause.objects.create(connector=REMOTE, reason="invoice", paused_by="olga", paused_at=NOW)
    for page in ("/admin/", "/admin/monitoring/source/"):
        text = admin_client.get(page).text
        assert f'href="{url(REMOTE)}"' in text
        assert "source/operator" not in text
        assert "paused by olga since 14:20: invoice. Resume" in words(text)


def test_configuration_has_no_secret(vendors: Vendors, admin_client: Client) -> None:
    page = admin_client.get(url("mock_a")).text
    shown = dict(row for row in table(page, "Configuration") if len(row) == 2)
    assert shown["Source A"] == "1 of 1 in SOURCE_A ; no price set ( SOURCE_A_PRICE )"
    assert shown["Fields"] == "location, name"
    assert shown["Concurrency limit"].endswith("calls per process")
    assert {"Kind", "A search waits", "A call ends", "Cached", "Numbers"} <= shown.keys()
    assert [secret for secret in (*KEYS.values(), vendors.a.url) if secret in page] == []


# --- Check now ----------------------------------------------------------------------------------------------------


def test_check_calls_the_source_once_and_keeps_the_result(vendors: Vendors, admin_client: Client) -> None:
    page = admin_client.get(url("mock_a", "check-now/")).text
    assert "The vendor may bill it." in page
    response = admin_client.post(url("mock_a", "check-now/"), follow=True)
    shown = words(response.text.partition('id="check"')[2])
    assert re.search(
        r"The check succeeded: found, in \d+ ms\. Fields: location, name\. Checked at \S+ \S+ UTC by admin \.", shown
    )
    assert "Failed:" not in shown
    assert len(vendors.a.heads) == 1
    (entry,) = LogEntry.objects.all()
    assert (entry.object_repr, entry.change_message.startswith("Checked by a call: found in ")) == ("mock_a", True)
    assert "Example Bakery" not in json.dumps(SourceCheck.objects.get().result)


def test_failed_check_shows_what_to_do(vendors: Vendors, admin_client: Client) -> None:
    vendors.a.behave_as(upstream.raw(b"", 401))
    response = admin_client.post(url("mock_a", "check-now/"), follow=True)
    shown = words(response.text)
    assert shown.count("The check failed: the vendor rejected the key (auth).") == 2
    assert f"401: MOCK_A_KEY is rejected. {advice('auth', REMOTE)}" in shown
    assert state(admin_client, "mock_a") == "check failed"
    for page in (url("mock_a"), "/admin/monitoring/source/"):
        shown = words(admin_client.get(page).text)
        assert re.search(r"check failed at \d{4}-\d\d-\d\d \d\d:\d\d UTC: auth \(401: MOCK_A_KEY is rejected\)", shown)
    write_buffer.process_buffer.flush()
    assert not SourceHour.objects.exists()  # a check is no search


def test_check_reads_the_samples_of_the_preset(
    vendors: Vendors, admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = Hook[str]()
    hook.add("tests.addons.plain.services.samples")
    monkeypatch.setattr(source_actions, "SAMPLES", hook)
    vendors.a.behave_as(upstream.raw(b"", 401))
    shown = words(admin_client.post(url("mock_a", "check-now/"), follow=True).text)
    assert "Failed: the call to the vendor." in shown
    assert re.search(r"Passed: the preset, which reads \d stored samples as expected", shown)


def test_check_of_an_uncovered_number_says_that_no_call_was_made(
    vendors: Vendors, admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_actions, "covers", lambda *args: False)
    response = admin_client.post(url("mock_a", "check-now/"), follow=True)
    assert "No call was made: not covered." in response.text
    assert "The check succeeded" not in response.text
    assert vendors.a.heads == []
    assert LogEntry.objects.get().change_message == "Checked without a call: not covered."


def test_second_check_within_the_interval_makes_no_call(
    vendors: Vendors, admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin_client.post(url("mock_a", "check-now/"))
    response = admin_client.post(url("mock_a", "check-now/"), follow=True)
    assert "No call was made" in response.text
    assert len(vendors.a.heads) == 1
    later = timezone.now() + source_actions.CHECK_INTERVAL + timedelta(seconds=60)
    monkeypatch.setattr(timezone, "now", lambda: later)
    assert "No call was made" not in admin_client.post(url("mock_a", "check-now/"), follow=True).text
    assert len(vendors.a.heads) == 2


def test_check_that_a_dead_process_left_is_taken_over(vendors: Vendors, admin_client: Client) -> None:
    recent = timezone.now() - timedelta(seconds=20)
    check = SourceCheck.objects.create(connector="mock_a", started_by="olga", started_at=recent)
    page = admin_client.post(url("mock_a", "check-now/"), follow=True).text
    assert "A check by olga has been running since" in page
    check.started_at = timezone.now() - timedelta(seconds=60)
    check.save()
    assert "The check succeeded" in admin_client.post(url("mock_a", "check-now/"), follow=True).text


@pytest.mark.django_db(transaction=True)
def test_concurrent_checks_make_one_call_without_transaction(settings: Any, admin_user: Any) -> None:
    settings.SOURCE_A = settings.SOURCE_B = "tests.connectors.Hangs"
    outcomes: list[str] = []

    def check() -> None:
        try:
            outcomes.append(source_actions.check(name="tests.connectors.Hangs", user=admin_user).outcome)
        except source_actions.CheckedRecently:
            outcomes.append("refused")
            connectors.Hangs.released.set()
        finally:
            connection.close()

    threads = [threading.Thread(target=check) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    # The second was refused while the first still waited: no lock and no transaction was held.
    assert outcomes == ["refused", "found"]
    assert len(connectors.Hangs.calls) == 1


# --- Pause and resume ---------------------------------------------------------------------------------------------


def test_pause_and_resume_from_the_page(frozen: None, admin_client: Client) -> None:
    page = admin_client.get(url(REMOTE, "pause/")).text
    assert "the only active source" not in page
    response = admin_client.post(url(REMOTE, "pause/"), {"reason": "invoice unpaid"}, follow=True)
    assert f"Paused {REMOTE}." in response.text
    pause = SourcePause.objects.get()
    assert (pause.connector, pause.paused_by, pause.reason) == (REMOTE, "admin", "invoice unpaid")
    statement = f"{REMOTE}: paused by admin since 2026-03-09 14:20 UTC: invoice unpaid."
    assert statement in words(admin_client.get(url(REMOTE, "resume/")).text)
    again = admin_client.post(url(REMOTE, "pause/"), {"reason": "again"})
    assert "is already paused by admin since 2026-03-09 14:20 UTC: invoice unpaid." in words(again.text)
    response = admin_client.post(url(REMOTE, "resume/"), {"reason": "paid"}, follow=True)
    assert f"Resumed {REMOTE}." in response.text
    assert not SourcePause.objects.exists()
    messages = LogEntry.objects.order_by("pk").values_list("change_message", flat=True)
    assert list(messages) == ["Paused. invoice unpaid", "Resumed. paid"]
    assert "is not paused." in admin_client.get(url(REMOTE, "resume/"), follow=True).text


def test_resumed_source_is_not_called_healthy_before_a_call(frozen: None, admin_client: Client) -> None:
    SourceResult.objects.create(connector=REMOTE, last_ms=round(NOW.timestamp() * 1000) - 1_000)
    for step in ("pause/", "resume/"):
        admin_client.post(url(REMOTE, step), {"reason": "paid"})
    pages = [words(admin_client.get(each).text) for each in (url(REMOTE), "/admin/monitoring/source/", "/admin/")]
    assert "resumed Not called since it was resumed at 2026-03-09 14:20:30 UTC." in pages[0]
    assert "resumed not called since" in pages[1]
    assert f"{REMOTE}: not called since it was resumed." in pages[2]
    assert ["Last failed" in text for text in pages[:2]] == [False, False]
    SourceResult.objects.filter(reason="").update(last_ms=round(NOW.timestamp() * 1000) + 1_000)
    assert "since it was resumed" not in admin_client.get(url(REMOTE)).text


def test_pause_of_the_last_source_warns(frozen: None, admin_client: Client, settings: Any) -> None:
    settings.SOURCE_B = REMOTE
    warning = (
        "This is the only active source in source B. While it is paused, source B fails for every number without a "
        "rule or a cached answer."
    )
    assert warning in words(admin_client.get(url(REMOTE, "pause/")).text)
    settings.SOURCE_A = REMOTE
    assert "While it is paused, source A and source B fail for" in words(admin_client.get(url(REMOTE, "pause/")).text)


def test_pause_needs_a_reason(frozen: None, admin_client: Client) -> None:
    page = admin_client.post(url(REMOTE, "pause/"), {"reason": " "}).text
    assert "Nothing was changed" in page
    assert not SourcePause.objects.exists()
