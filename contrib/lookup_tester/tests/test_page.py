"""The page "Test a number": what a search answers, without a charge, and the number in no URL, log line or table."""

import json
import re
import time
from types import SimpleNamespace
from typing import Any

import django_ratelimit.core
import pytest
from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.test import Client

from accounts.models import SearchHour
from contrib.lookup_tester import admin
from core import loop, write_buffer
from lookup.models import SourcePause
from lookup.search import bound_sources
from lookup.serializers import SearchData
from lookup.vendors import cache
from monitoring.models import SourceHour
from monitoring.source_statistics import advice
from phonebook.models import Contact, NumberRule
from tests import connectors
from tests.api import Integrator
from tests.awaited import search
from tests.console.role_table import logged_in
from tests.console_pages import table, words

pytestmark = pytest.mark.django_db

URL = "/admin/test-a-number/"
TYPED, DIGITS = "+49 (30) 23125-042", "493023125042"
T = "tests.connectors."


def submit(client: Client, number: str = TYPED) -> Any:
    return client.post(URL, {"number": number})


@pytest.fixture(autouse=True)
def _sources(settings: Any) -> None:
    settings.SOURCE_A, settings.SOURCE_B = f"{T}KnowsName,{T}RemoteKnows", f"{T}Fails,{T}RemoteKnowsToo"


def cells(response: Any) -> list[list[str]]:
    return [[cell.replace(T, "") for cell in row] for row in table(response.text, "Sources")]


def test_json_is_the_data_of_the_api(admin_client: Client) -> None:
    shown = json.loads(submit(admin_client).context["json"])
    assert shown == Integrator().search(DIGITS).json()["data"] == SearchData(search(DIGITS)).data


def test_phone_shows_name_place_number_and_spam(admin_client: Client) -> None:
    text = words(submit(admin_client).text.partition('aria-label="As a phone shows it"')[2].partition("</dl>")[0])
    for shown in ("Only A Name", "Remote Place", "+49 30 23125042", "Spam", "Source B Remote Name, spam"):
        assert shown in text


def test_each_member_has_outcome_duration_and_what_it_supplied(admin_client: Client) -> None:
    rows = cells(submit(admin_client))
    assert [[row[0], row[1], row[3]] for row in rows] == [
        ["KnowsName Source A", "found", "name"],
        ["RemoteKnows Source A", "found", "location"],
        ["Fails Source B", "failed: down", "-"],
        ["RemoteKnowsToo Source B", "found", "name, spam verdict"],
    ]
    assert all(re.fullmatch(r"[\d.,]+", row[2]) for row in rows)
    loop.run(cache.answers.flush())
    again = cells(submit(admin_client))
    assert again[1][1] == "found (cached)"


def test_rules_pauses_and_unneeded_members_are_explained(admin_client: Client) -> None:
    NumberRule.objects.create(number=int(DIGITS), name="By Rule", spam=True)
    SourcePause.objects.create(connector=T + "RemoteKnows", reason="r", paused_by="olga")
    unneeded, resume = "Its fields were already known.", advice("paused", "RemoteKnows")
    assert [row[:2] + row[3:] for row in cells(submit(admin_client))] == [
        ["Operator rule for +49 30 23125042 Source A", "found", "name", "-"],
        ["KnowsName Source A", "not called", "-", unneeded],
        ["RemoteKnows Source A", "failed: paused not called: paused by an operator", "-", resume],
        ["Operator rule for +49 30 23125042 Source B", "found", "name, spam verdict", "-"],
        *(
            [f"{name} Source B", "not called", "-", unneeded]
            for name in ("Fails", "RemoteKnowsToo")
        ),
    ]  # fmt: skip


def test_open_breaker_links_the_failures_that_opened_it(admin_client: Client) -> None:
    guard = bound_sources("source_a")[1].guard
    assert guard is not None
    guard.breaker.failed(guard.breaker.admit(), open_now=True)
    [shown] = [row for row in cells(submit(admin_client)) if "breaker" in row[1]]
    assert (shown[0], shown[4].startswith("See the reason on the source's page.")) == ("RemoteKnows Source A", True)


def test_rule_for_a_prefix_is_named_and_can_be_overridden(admin_client: Client) -> None:
    rule = NumberRule.objects.create(number=4930, is_prefix=True, spam=True)
    response = submit(admin_client)
    assert ["Operator rule for +4930… Source B", "found", "-", "spam verdict", "-"] in cells(response)
    assert dict(response.context["links"])["Open the rule"] == f"/admin/phonebook/numberrule/{rule.pk}/change/"
    assert "Save as rule" in dict(response.context["additions"])


def test_failure_of_both_slots_is_said(admin_client: Client, settings: Any) -> None:
    settings.SOURCE_A = settings.SOURCE_B = T + "Fails"
    response = submit(admin_client)
    assert "a search would get 500" in words(response.text)
    assert "Copy JSON" not in response.text


def test_nothing_is_charged_and_no_search_is_counted(admin_client: Client) -> None:
    integrator = Integrator()
    submit(admin_client)
    write_buffer.process_buffer.flush()
    assert (integrator.debits(), integrator.balance()) == (0, 10)
    assert not SearchHour.objects.exists()
    assert SourceHour.objects.filter(connector=T + "RemoteKnows", outcome="found").exists()


def test_number_is_in_no_url_log_or_table(admin_client: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    response = submit(admin_client)
    links = re.findall(r'(?:href|action|src)="(.*?)"', response.text)
    assert [link for link in links if "23125" in link] == []
    assert response.headers["Cache-Control"].startswith("max-age=0, no-cache, no-store")
    stored = [str(row) for model in apps.get_models() for row in model._base_manager.values_list()]
    assert [row for row in stored if "23125" in row] == []
    assert [line for line in caplog.messages if "23125" in line and "SELECT" not in line] == []
    (entry,) = LogEntry.objects.all()
    assert entry.object_repr == "number 49********42"
    assert entry.change_message == "Tested in the console: source_a found, source_b found."


@pytest.mark.parametrize("number", ["", "123", "+999 (0)30 23125042", "x" * 41, "030 23125042"])
def test_invalid_numbers_call_no_source(admin_client: Client, number: str) -> None:
    assert "Nothing was looked up" in submit(admin_client, number).text
    assert connectors.KnowsName.calls == []
    assert not LogEntry.objects.exists()


def test_number_in_the_url_is_ignored(admin_client: Client) -> None:
    assert DIGITS not in admin_client.get(URL, {"number": DIGITS}).text
    assert connectors.KnowsName.calls == []


def test_sidebar_marks_only_this_page(admin_client: Client) -> None:
    sections = admin_client.get(URL).context["sidebar_navigation"]
    active = [item["title"] for section in sections for item in section["items"] if item["active"]]
    assert active == ["Test a number"]


def test_user_may_test_30_numbers_a_minute(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()  # 31 pages may take longer than what is left of a window
    monkeypatch.setattr(django_ratelimit.core, "time", SimpleNamespace(time=lambda: now))
    for _ in range(admin.RATE[0]):
        assert submit(admin_client).status_code == 200
    called = len(connectors.KnowsName.calls)
    refused = submit(admin_client)
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert "Too many attempts. Try again in" in refused.text
    assert len(connectors.KnowsName.calls) == called


def test_buttons_add_or_open_rule_and_contact(admin_client: Client) -> None:
    additions = dict(submit(admin_client).context["additions"])
    assert additions.keys() == {"Save as rule", "Save as contact"}
    for url in additions.values():
        page = admin_client.post(url, {"new_number": "+49 30 23125042"}).text
        assert 'value="+49 30 23125042"' in page
        assert "Correct the error" not in page
    assert not NumberRule.objects.exists()
    rule = NumberRule.objects.create(number=int(DIGITS), spam=False)
    contact = Contact.objects.create(number=int(DIGITS), name="x")
    response = submit(admin_client)
    assert response.context["additions"] == []
    assert dict(response.context["links"]) == {
        "Open the rule": f"/admin/phonebook/numberrule/{rule.pk}/change/",
        "Open the contact": f"/admin/phonebook/contact/{contact.pk}/change/",
    }


def test_support_sees_only_links_that_it_may_use() -> None:
    user = User.objects.create_user("sam", is_staff=True)
    user.groups.add(Group.objects.get(name="support"))
    client = Client()
    client.force_login(user)
    assert [submit(client).context[name] for name in ("links", "additions")] == [[], []]
    NumberRule.objects.create(number=int(DIGITS), spam=False)
    assert [title for title, _ in submit(client).context["links"]] == ["Open the rule"]


def test_page_of_a_rule_has_the_button_for_those_who_may(admin_client: Client) -> None:
    rule = NumberRule.objects.create(number=int(DIGITS), spam=False)
    page = f"/admin/phonebook/numberrule/{rule.pk}/change/"
    assert admin_client.get(page).text.count("Test this number") == 1
    assert "Test this number" not in logged_in("auditor").get(page).text


def test_title_of_test_a_number_is_its_own(admin_client: Client) -> None:
    title = admin_client.get("/admin/test-a-number/").text.partition("<title>")[2].partition("</title>")[0]
    assert title.strip() == "Test a number | Caller ID"
