"""The History: its filters by object, action and time, and what they read."""

import json
from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from accounts.models import ApiToken, Customer
from core import history
from core.periods import CalendarPeriod
from phonebook.models import NumberRule
from tests.accounts.admin.pages import customer_form, query_count
from tests.console_pages import words

pytestmark = pytest.mark.django_db

URL = "/admin/admin/logentry/"


@pytest.fixture
def entries(admin_user: User) -> User:
    """Three entries of `olga`; the first is 10 days old."""
    user = User.objects.create_user("olga")
    for action, model, name in (
        (history.Action.CHANGE, ApiToken, "old"),
        (history.Action.ADDITION, ApiToken, "new"),
        (history.Action.CHANGE, NumberRule, "rule"),
    ):
        history.record(action=action, model=model, name=name, message="m", user=user)
    LogEntry.objects.filter(object_repr="old").update(action_time=timezone.now() - timedelta(days=10))
    return user


def listed(client: Client, **parameters: str) -> list[str]:
    return [row.object_repr for row in client.get(URL, parameters).context["cl"].result_list]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"object": "apitoken"}, ["new", "old"]),
        ({"object": "numberrule"}, ["rule"]),
        ({"action": "changed"}, ["rule", "old"]),
        ({"time": "7d"}, ["rule", "new"]),
        ({"time": "30d", "object": "apitoken", "action": "changed"}, ["old"]),
        ({"q": "olg", "action": "added"}, ["new"]),
        ({"q": "nobody"}, []),
    ],
)
def test_filters_select_by_object_action_and_time(
    admin_client: Client, entries: User, parameters: dict[str, str], expected: list[str]
) -> None:
    assert listed(admin_client, **parameters) == expected


def test_seven_days_begin_at_the_current_minute(admin_client: Client, entries: User) -> None:
    for name, hours in (("old", 7 * 24 + 1), ("new", 7 * 24 - 1)):
        LogEntry.objects.filter(object_repr=name).update(action_time=timezone.now() - timedelta(hours=hours))
    assert listed(admin_client, time="7d") == ["rule", "new"]


def test_entries_of_the_last_month_are_selected(admin_client: Client, entries: User) -> None:
    this_month = CalendarPeriod.of(timezone.now())
    for name, at in (
        ("old", this_month.previous.since - timedelta(seconds=1)),
        ("new", this_month.previous.since),
        ("rule", this_month.since - timedelta(seconds=1)),
    ):
        LogEntry.objects.filter(object_repr=name).update(action_time=at)
    history.record(action=history.Action.CHANGE, model=ApiToken, name="current", message="m", user=entries)
    assert listed(admin_client, time="last-month") == ["rule", "new"]
    last = this_month.previous
    assert listed(admin_client, time=last.key) == ["rule", "new"]
    assert set(listed(admin_client, time=CalendarPeriod.of(last.since, 3).key)) >= {"rule", "new"}
    assert listed(admin_client, time="2001-Q1") == []
    assert "Time: Q1 2001 (January to March)" in words(admin_client.get(URL, {"time": "2001-Q1"}).text)
    assert "Time: last month" in words(admin_client.get(URL, {"time": "last-month"}).text)


def test_history_of_an_object_covers_all_its_entries(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accounts.admin.search_text.MAX_SCANNED", 1)
    rules = [NumberRule.objects.create(number=12125550100 + n) for n in range(2)]
    rule = rules[0]
    for target in (rule, *rules):
        history.record(action=history.Action.CHANGE, target=target, message="m", user=User.objects.get())
    page = admin_client.get(f"/admin/phonebook/numberrule/{rule.pk}/history/", follow=True)
    assert [row.object_id for row in page.context["cl"].result_list] == [str(rule.pk)] * 2
    assert "About: rule +1 212 555 0100" in words(page.text)
    nothing = admin_client.get(URL, {"about": "phonebook.numberrule.0"}).text
    assert "No entries match." in words(nothing)
    for about in ("x", "..", "a.b.", ".5"):
        assert admin_client.get(URL, {"about": about}).status_code == 200


def test_search_finds_objects_by_name_but_no_numbers(admin_client: Client, entries: User) -> None:
    history.record(action=history.Action.CHANGE, model=NumberRule, name="12125550100 new", message="m", user=entries)
    assert listed(admin_client, q="NEW") == ["new"]
    page = admin_client.get(URL, {"q": "+1 212 555-0100"}, follow=True)
    assert page.redirect_chain == [(f"{URL}?", 302)]
    assert "Numbers cannot be searched here, because" in page.text


@pytest.mark.parametrize(("old", "term"), [("Harbour Street", "harbour st"), ('Café "Öl"', 'Café "Ö')])
def test_search_finds_a_renaming_by_the_old_name(admin_client: Client, admin_user: User, old: str, term: str) -> None:
    customer = Customer.objects.create(name=old)
    renamed = admin_client.post(f"/admin/accounts/customer/{customer.pk}/edit/", customer_form(name="Harbour"))
    assert renamed.status_code == 302
    assert listed(admin_client, q=term) == [f"Harbour (#{customer.pk})"]
    rule = NumberRule.objects.create(number=12125550100)
    history.record(action=history.Action.CHANGE, target=rule, message=f"From {old}", user=admin_user)
    assert listed(admin_client, q=term) == [f"Harbour (#{customer.pk})"]


def test_filters_cover_the_newest_entries(admin_client: Client, entries: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accounts.admin.search_text.MAX_SCANNED", 2)
    assert listed(admin_client, object="apitoken") == ["new"]
    assert "Among the newest 2 entries" in admin_client.get(URL, {"object": "apitoken"}).text
    assert listed(admin_client, q="olga") == listed(admin_client) == ["rule", "new", "old"]


def test_filtered_list_runs_as_many_statements_for_many_rows(admin_client: Client, entries: User) -> None:
    few = query_count(admin_client, URL, {"action": "changed"})
    for n in range(10):
        user = User.objects.create_user(f"user {n}")
        history.record(action=history.Action.CHANGE, model=NumberRule, name=f"{n}", message="m", user=user)
    assert query_count(admin_client, URL, {"action": "changed"}) == few


@pytest.mark.parametrize(("fields", "said"), [(["Note"], True), (['Rate limit from "30" to "60"'], False)])
def test_entry_says_that_values_are_not_kept(
    admin_client: Client, admin_user: User, fields: list[str], said: bool
) -> None:
    message = json.dumps([{"changed": {"fields": fields}}])
    LogEntry.objects.create(user=admin_user, object_repr="pbx (#1)", action_flag=2, change_message=message)
    assert ("Values that are not shown are not kept." in admin_client.get(URL).text) is said
