"""Which tokens open an incident, and what closes it."""

import re
from datetime import timedelta
from typing import Any

import pytest

from accounts import tokens
from accounts.models import ApiToken, Customer
from contrib.alerts import alert_emails, checking, token_checks
from contrib.alerts.incidents import open_incidents
from contrib.alerts.models import Incident, Notice
from contrib.alerts.tests.alert_checks import expiring, found, only
from tests.account_fixtures import Clock
from tests.console.dashboard_rows import NOW, issue_long_ago

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("service_at_rest")]

DAY = timedelta(days=1)


def test_token_near_its_expiry_opens_an_incident_at_once(clock: Clock) -> None:
    token = expiring(13, name="Jane Example")
    expiring(15)
    tokens.revoke(token=expiring(3))
    checking.check()
    incident = only()
    assert (incident.kind, incident.subject) == ("token.expiring", str(token.pk))
    assert incident.title == f"Jane Example (#{token.pk}) expires on 22 March"
    assert incident.summary == "It expires at 2026-03-22 14:20 UTC."
    clock.now += 14 * DAY
    checking.check()
    assert Incident.objects.get(pk=incident.pk).title == f"Jane Example (#{token.pk}) expired on 22 March"
    tokens.rotate(token=ApiToken.objects.get(pk=token.pk))
    checking.check()
    assert Incident.objects.get(pk=incident.pk).closed_at == clock.now


def test_token_is_reported_before_it_runs_out_and_after(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    settings.ALERT_EMAILS = ["ops@example.org"]
    token = issue_long_ago("Harbour reception", 20, charged=70)  # 10 a day
    ApiToken.objects.filter(pk=token.pk).update(customer=Customer.objects.create(name="Harbour Clinic"))
    issue_long_ago("large", 1_000, charged=70)
    checking.check()
    assert {(each.kind, each.subject) for each in open_incidents()} == {("token.running_out", str(token.pk))}
    assert re.fullmatch(r"It has 20 credits, and uses 1\d\.\d a day\.", only().summary)
    subject = alert_emails.message(Notice.objects.get()).subject
    assert only().title == f"Harbour reception (#{token.pk}) of Harbour Clinic runs out of credits on 11 March"
    assert subject == f"[Caller ID] {only().title}"
    assert "Harbour" not in caplog.text
    ApiToken.objects.filter(pk=token.pk).update(credits=1)
    checking.check()
    assert only().summary.startswith("It has 1 credit, and uses")
    ApiToken.objects.filter(pk=token.pk).update(credits=0)
    checking.check()
    assert only().kind == "token.out_of_credits"
    ApiToken.objects.filter(pk=token.pk).update(credits=10_000)
    checking.check()
    assert list(open_incidents()) == []


def test_many_tokens_open_a_limited_number_of_incidents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_checks, "MAX_TOKENS", 2)
    first, second, third, fourth = (expiring(days, name=f"t{days}") for days in (1, 2, 3, 4))
    checking.check()
    subjects = {each.subject for each in open_incidents()}
    assert subjects == {str(first.pk), str(second.pk), "others"}
    others = Incident.objects.get(subject="others")
    assert others.title == "More than 2 API tokens expire within 14 days or have expired"
    assert others.summary == "2 more API tokens expire within 14 days or have expired."
    tokens.revoke(token=first)
    checking.check()
    assert {each.subject for each in open_incidents()} == {str(second.pk), str(third.pk), "others"}
    tokens.revoke(token=fourth)
    checking.check()
    assert {each.subject for each in open_incidents()} == {str(second.pk), str(third.pk)}


def test_tokens_in_another_order_open_no_further_incidents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_checks, "MAX_TOKENS", 2)
    first, second, third = (expiring(days) for days in (2, 3, 4))
    checking.check()
    expected = {str(first.pk), str(second.pk), "others"}
    assert {each.subject for each in open_incidents()} == expected
    ApiToken.objects.filter(pk=third.pk).update(expires_at=NOW + DAY)
    checking.check()
    assert {each.subject for each in open_incidents()} == expected
    assert Incident.objects.get(subject="others").summary.startswith("1 more API tokens")


def test_incident_that_is_only_kept_open_counts_as_one_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_checks, "MAX_TOKENS", 1)
    first = issue_long_ago("first", 20, charged=70)  # 10 a day
    checking.check()
    ApiToken.objects.filter(pk=first.pk).update(credits=50)
    issue_long_ago("second", 20, charged=70)
    checking.check()
    assert {each.subject for each in open_incidents()} == {str(first.pk), "others"}


def test_days_of_zero_turn_alerts_about_tokens_off(settings: Any) -> None:
    settings.ALERT_EXPIRY_DAYS = settings.ALERT_RUNNING_OUT_DAYS = 0
    expiring(1)
    issue_long_ago("pbx", 0, charged=70)
    assert found() == set()
