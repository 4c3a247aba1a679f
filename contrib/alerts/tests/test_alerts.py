"""The check that `send_notices` makes: which conditions open an incident, and what closes it."""

import io
import json
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from accounts import audit
from accounts.models import ApiToken, SearchHour
from contrib.alerts import alert_emails, checking, notices, samplers, token_checks
from contrib.alerts.group_titles import SAMPLED, kind_title
from contrib.alerts.incidents import open_incidents
from contrib.alerts.models import Incident, Notice
from contrib.alerts.tests.alert_checks import expiring, found, only
from core import addons, history
from lookup import source_actions
from lookup.models import SourceCheck, SourcePause
from monitoring import source_report, task_runs
from monitoring.health import operations
from monitoring.models import SourceHour, SourceResult, TaskRun
from phonebook.imports.numbering_plan import NUMBERING_PLAN
from phonebook.models import Dataset
from tests.account_fixtures import Clock
from tests.console.dashboard_rows import NOW, add_result, count_calls, count_requests
from tests.plugin import ROOT
from tests.upstream import Upstream, raw

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("service_at_rest")]

KNOWS = "tests.connectors.Knows"
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


# --- Sources -----------------------------------------------------------------------------------------------------


def fail(clock: Clock, *, hint: str = "Check the key.") -> None:
    last_ms = round(clock.now.timestamp() * 1000)
    SourceResult.objects.update_or_create(connector=KNOWS, reason="auth", hint=hint, defaults={"last_ms": last_ms})


def test_nothing_is_wrong_with_a_service_at_rest() -> None:
    assert found() == set()
    assert Incident.objects.count() == 0


def test_source_that_goes_on_failing_opens_an_incident(clock: Clock) -> None:
    fail(clock)
    count_calls("auth", 4, connector=KNOWS)
    checking.check()
    clock.now += 5 * MINUTE
    fail(clock)
    checking.check()
    incident = only()
    assert (incident.kind, incident.subject, incident.title) == ("source.failing", KNOWS, f"Source failing: {KNOWS}")
    assert incident.summary == "4 of 4 lookups failed. Last failure: auth, at 2026-03-09 14:25 UTC. Check the key."
    assert incident.hint == "Correct the key, or ask the vendor to enable the account."


def test_incident_of_a_source_ends_only_with_an_answer(clock: Clock) -> None:
    fail(clock)
    count_calls("auth", 30, connector=KNOWS)
    assert found() == {("source.failing", KNOWS)}
    clock.now += 6 * timedelta(hours=1)
    assert found() == {("source.failing", KNOWS)}
    SourceResult.objects.create(connector=KNOWS, last_ms=round(clock.now.timestamp() * 1000))
    checking.check()
    assert only().closed_at is None
    clock.now += 10 * MINUTE
    checking.check()
    assert list(open_incidents()) == []
    assert Incident.objects.get().closed_at == clock.now


def test_rejected_key_is_reported_until_a_check_succeeds(clock: Clock) -> None:
    fail(clock)
    clock.now += timedelta(hours=25)
    SourceResult.objects.create(connector=KNOWS, reason="late", last_ms=round(clock.now.timestamp() * 1000))
    clock.now += timedelta(hours=1)
    assert ("source.failing", KNOWS) in found()
    without_call = {"ok": True, "ms": None, "outcome": "not covered"}
    check = SourceCheck(connector=KNOWS, started_by="boss", started_at=clock.now, finished_at=clock.now)
    for check.result in (without_call, {**without_call, "ms": 120.0}):
        check.save()
        assert ("source.failing", KNOWS) in found()
    clock.now += 10 * MINUTE
    assert ("source.failing", KNOWS) not in found()


@pytest.mark.parametrize(
    ("failed_s_ago", "answered_s_ago", "counts", "failing"),
    [
        (299, None, {"auth": 1}, True),
        (301, None, {"auth": 1}, False),
        (299, 300, {"auth": 1}, True),
        (299, 298, {"auth": 1}, False),
        (1_000, None, {"late": 3}, True),  # called rarely
        (1_000, None, {"late": 2}, False),
        (10, 9, {"found": 90, "late": 10}, True),
        (10, 9, {"found": 91, "late": 9}, False),
        (10, 9, {"found": 91, "late": 9, "paused": 900}, False),
        (10, 9, {"found": 9, "late": 9}, False),
        (301, 9, {"found": 50, "late": 50}, False),
    ],
)
def test_source_is_failing(
    failed_s_ago: float, answered_s_ago: float | None, counts: dict[str, int], failing: bool
) -> None:
    add_result("late", seconds_ago=failed_s_ago)
    if answered_s_ago is not None:
        add_result(seconds_ago=answered_s_ago)
    for outcome, count in counts.items():
        count_calls(outcome, count, connector=KNOWS)
    states = source_report.states(NOW)
    assert {name: state.is_failing for name, state in states.items()} == {KNOWS: failing}


def test_paused_source_is_not_failing(clock: Clock) -> None:
    fail(clock)
    count_calls("auth", 30, connector=KNOWS, ms_more=30)
    pause = SourcePause.objects.create(connector=KNOWS, reason="maintenance", paused_by="boss")
    assert found() == set()
    pause.delete()
    count_calls("paused", 1_000, connector=KNOWS)
    clock.now += MINUTE
    fail(clock)
    assert found() == {("source.failing", KNOWS), ("source.slow", KNOWS)}
    assert "30 of 30 lookups failed" in Incident.objects.get(kind="source.failing").summary


def test_pause_ends_the_alerts_of_its_source_at_once(clock: Clock, settings: Any) -> None:
    """As public reports ask: a paused check must be shown neither as failing nor as working."""
    settings.ALERT_OPEN_AFTER_MIN = 0
    fail(clock)
    count_calls("auth", 30, connector=KNOWS, ms_more=30)
    checking.check()
    assert {each.kind for each in open_incidents()} == {"source.failing", "source.slow"}
    source_actions.pause(name=KNOWS, reason="no invoice")
    assert not open_incidents().exists()
    ended = Incident.objects.get(kind="source.failing")
    statement = f"{KNOWS}: paused by {history.command_actor()} since 2026-03-09 14:20 UTC: no invoice."
    assert (ended.closed_at, ended.summary, ended.hint) == (NOW, statement, "")
    assert ended.ended_because == "the source is paused"
    notice = Notice.objects.get(event="incident.resolved", payload__contains="source.failing")
    assert json.loads(notice.payload)["data"]["ended_because"] == "the source is paused"
    email = alert_emails.message(notice)
    assert email.subject == f"[Caller ID] Ended: Source failing: {KNOWS}"
    assert str(email.body).startswith("This alert has ended: the source is paused.")
    body = str(email.body)
    assert statement in body
    assert "Correct the key" not in body
    checking.check()
    assert not open_incidents().exists()
    clock.now += MINUTE
    source_actions.resume(name=KNOWS)
    again = open_incidents().get(kind="source.failing")
    assert (again.first_seen_at, again.summary) == (NOW, "Resumed; not checked since.")
    assert again.ended_because == ""
    assert again.hint.startswith("Check it on its page")
    checking.check()
    again = open_incidents().get(kind="source.failing")
    assert (again.pk, again.first_seen_at) == (ended.pk, NOW)
    assert "Resumed" not in again.summary
    assert Notice.objects.filter(event="incident.opened", payload__contains="source.failing").count() == 2


def test_end_is_not_sent_after_its_alert_has_opened_again(
    clock: Clock, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """prometheus/alertmanager#2510: a late delivery said "resolved" of an alert that fired."""
    settings.ALERT_OPEN_AFTER_MIN = 0
    sent: list[str] = []
    monkeypatch.setattr("contrib.alerts.notices.mail.send_email", lambda email: sent.append(email.subject))
    fail(clock)
    checking.check()
    Incident.objects.update(acknowledged_at=NOW, acknowledged_by="boss", acknowledgement="on it")
    list(notices.send_due())
    source_actions.pause(name=KNOWS, reason="no invoice")  # sent by nobody meanwhile
    source_actions.resume(name=KNOWS)
    again = open_incidents().get(kind="source.failing")
    assert (again.acknowledged_at, again.acknowledgement) == (None, "")  # reported again, and its end
    checking.check()
    outcomes = list(notices.send_due())
    assert sorted(outcomes) == ["not needed", "sent"]
    assert [subject.partition("] ")[2] for subject in sent] == [f"Source failing: {KNOWS}"] * 2


def test_alert_about_a_source_that_is_left_out_ends(clock: Clock, settings: Any) -> None:
    """As csmarshall/gluetun-monitor#44 has it: "resolved" would say that it recovered."""
    settings.ALERT_OPEN_AFTER_MIN = 0
    fail(clock)
    checking.check()
    settings.SOURCE_A = settings.SOURCE_B = "directory"
    checking.check()
    ended = Incident.objects.get(kind="source.failing")
    assert (ended.closed_at, ended.ended_because) == (clock.now, "the source is not configured any more")


def test_alert_that_opens_during_a_pause_ends_at_the_next_check(clock: Clock, settings: Any) -> None:
    """The check had read the states before the pause."""
    settings.ALERT_OPEN_AFTER_MIN = 0
    fail(clock)
    checking.check()
    SourcePause.objects.create(connector=KNOWS, reason="r", paused_by="olga")
    checking.check()
    assert not open_incidents().exists()


def test_slow_source_is_reported_until_it_is_clearly_faster(clock: Clock, settings: Any) -> None:
    settings.ALERT_SLOW_MS = 500
    count_calls("found", 100, connector=KNOWS, ms_1000=100)
    assert found() == {("source.slow", KNOWS)}
    assert only().summary == ("The slowest 5 % of 100 calls took 975 ms or more. A search waits at most 1,500 ms.")
    SourceHour.objects.update(ms_1000=0, ms_500=100)  # 95 % up to 487 ms
    clock.now += 30 * MINUTE
    assert found() == {("source.slow", KNOWS)}
    SourceHour.objects.update(ms_500=0, ms_250=100)
    clock.now += 10 * MINUTE
    assert found() == set()


def test_few_slow_calls_open_no_incident(settings: Any) -> None:
    count_calls("found", 19, connector=KNOWS, ms_more=19)
    assert found() == set()
    count_calls("found", 1, connector=KNOWS, ms_more=1, hours_ago=1)
    assert found() == {("source.slow", KNOWS)}
    assert "more than 2,500 ms" in only().summary


# --- Searches ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "hour_before", "expected"),
    [
        ({"found_both": 89, "found_degraded": 11, "rate_limited": 1_000}, {}, [("searches.degraded", "11 of 100")]),
        ({"found_both": 90, "found_degraded": 10}, {}, []),
        ({"found_degraded": 9}, {"found_degraded": 10}, []),
        ({"found_degraded": 9}, {"found_degraded": 11}, [("searches.degraded", "20 of 20")]),
        ({"found_both": 97, "failed": 3}, {}, [("searches.failing", "3 of 100")]),
        ({"found_both": 20, "failed": operations.MIN_FAILURES - 1}, {}, []),
        ({"found_both": 20, "failed": operations.MIN_FAILURES}, {}, [("searches.failing", "3 of 23")]),
    ],
)
def test_degraded_and_failed_searches_open_incidents(
    counts: dict[str, int], hour_before: dict[str, int], expected: list[tuple[str, str]]
) -> None:
    for hours_ago, hour in enumerate((counts, hour_before)):
        for outcome, count in hour.items():
            count_requests(outcome, count, hours_ago=hours_ago)
    found()
    assert [(each.kind, " ".join(each.summary.split()[:3])) for each in open_incidents()] == expected


def test_incident_about_searches_ends_at_half_of_the_limit(clock: Clock) -> None:
    count_requests("found_both", 89)
    count_requests("found_degraded", 11)
    assert found() == {("searches.degraded", "")}
    for others, expected in ((150, {("searches.degraded", "")}), (500, set())):
        SearchHour.objects.filter(outcome="found_both").update(count=others)
        clock.now += 10 * MINUTE
        assert found() == expected


def test_unavailable_redis_opens_an_incident(settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert found() == {("redis.unavailable", "")}


# --- Data and maintenance ----------------------------------------------------------------------------------------


def test_audit_that_disagrees_opens_an_incident_until_one_agrees(clock: Clock) -> None:
    clock.now += MINUTE
    task_runs.record(audit.TASK, succeeded=False)
    checking.check()
    assert (only().kind, only().subject) == ("audit.failed", audit.TASK)
    clock.now += MINUTE
    task_runs.record(audit.TASK, succeeded=True)
    checking.check()
    assert list(open_incidents()) == []


def test_stale_data_opens_an_incident(settings: Any) -> None:
    settings.SOURCE_A = "geography"
    Dataset.objects.create(name=NUMBERING_PLAN, version="1.0", rows=1)
    checking.check()
    assert (only().kind, only().subject) == ("data.stale", "numbering_plan")
    settings.SOURCE_A = "tests.connectors.Knows"
    checking.check()
    assert list(open_incidents()) == []


def test_overdue_maintenance_opens_an_incident() -> None:
    TaskRun.objects.filter(name=task_runs.PRUNE).update(succeeded_at=NOW - 3 * DAY)
    TaskRun.objects.filter(name=audit.TASK).update(succeeded_at=NOW - 8 * DAY)
    checking.check()
    assert (only().kind, only().subject) == ("task.overdue", "prune")
    assert only().hint == "Run ./run manage prune, and check its timer or cron."


# --- The check ---------------------------------------------------------------------------------------------------


def test_check_that_fails_leaves_its_incidents_as_they_are(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: Any) -> Any:
        yield from ()
        raise RuntimeError("secret")

    token = expiring(1)
    checking.check()
    monkeypatch.setattr(token_checks, "EXPIRING", replace(token_checks.EXPIRING, find=broken))
    TaskRun.objects.filter(name=task_runs.PRUNE).update(succeeded_at=NOW - 3 * DAY)
    checking.check()
    assert {each.subject for each in open_incidents()} == {str(token.pk), "prune"}
    assert "alerts: the check of token.expiring failed" in caplog.text
    assert task_runs.all_runs()[checking.TASK].failed_at == NOW


def test_incident_of_an_absent_add_on_ends() -> None:
    for kind in ("absent.failing", samplers.CLOCK):
        Incident.objects.create(kind=kind, title=kind, first_seen_at=NOW, last_seen_at=NOW, opened_at=NOW)
    checking.check()
    assert {each.kind for each in open_incidents()} == {"absent.failing", samplers.CLOCK}  # maybe a newer release's
    Incident.objects.update(last_seen_at=NOW - timedelta(minutes=16))
    checking.check()
    assert [each.kind for each in open_incidents()] == [samplers.CLOCK]
    assert Incident.objects.get(kind="absent.failing").ended_because == "nothing checks this any more"


def test_incident_that_somebody_still_checks_stays_open() -> None:
    """Another host has the add-on, and has seen one of two conditions since."""
    for subject, seen_at in (("old", NOW - timedelta(minutes=16)), ("new", NOW)):
        times = {"first_seen_at": NOW - DAY, "last_seen_at": seen_at, "opened_at": NOW - DAY}
        Incident.objects.create(kind="absent.failing", subject=subject, title=subject, **times)
    checking.check()
    assert [each.subject for each in open_incidents()] == ["new"]


def send(*arguments: str) -> Any:
    out = io.StringIO()
    call_command(*arguments, "--json", stdout=out)
    return json.loads(out.getvalue())


def test_one_command_checks_and_sends(by_webhook: Upstream) -> None:
    expiring(1)
    assert send("send_notices")["opened"] == 1
    assert [json.loads(body)["data"]["kind"] for body in by_webhook.bodies] == ["token.expiring"]
    ApiToken.objects.update(revoked_at=NOW)
    assert send("send_notices")["resolved"] == 1
    assert [json.loads(body)["type"] for body in by_webhook.bodies] == ["incident.opened", "incident.resolved"]


def test_test_alert_says_what_happened_to_it(by_webhook: Upstream, settings: Any) -> None:
    settings.ALERT_EMAILS = []
    [row] = send("send_test_alert")["notices"]
    assert (row["channel"], row["outcome"]) == ("webhook", "sent")
    assert json.loads(by_webhook.bodies[0])["type"] == "alert.test"
    by_webhook.behave_as(raw(b"", 500))
    with pytest.raises(CommandError, match="Not all were accepted"):
        send("send_test_alert")


def test_every_kind_is_documented_and_has_words(settings: Any) -> None:
    page = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")
    table = page.partition("## What is reported\n")[2].partition("\n## ")[0]
    kinds = {*SAMPLED, *checking.alert_kinds()}
    documented = set(re.findall(r"^\| `([a-z_]+\.[a-z_]+)` \|", table, re.MULTILINE))
    assert kinds <= documented
    if set(settings.ADDONS) >= set(addons.in_package()):  # otherwise others may be an absent add-on's
        assert kinds == documented
    assert not any("." in kind_title(kind) for kind in kinds)
