"""The statistics' page: sums that an operator can read, of as many rows as there are, in one query."""

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from lookup.models import Usage

pytestmark = pytest.mark.django_db
URL = "/admin/lookup/usage/"


def this_hour() -> datetime:
    return timezone.now().replace(minute=0, second=0, microsecond=0)


def add(outcome: str = "found", count: int = 1, *, hours_ago: int = 0, **given: Any) -> None:
    default = {"hour": this_hour() - timedelta(hours=hours_ago), "token_id": 1, "slot": "source_a"}
    Usage.objects.create(**{**default, "connector": "twilio", "outcome": outcome, "count": count, **given})


def tables(client: Client, **query: str) -> list[list[list[str]]]:
    """The cells of each table of the page, without the headings."""
    text = client.get(URL, query).text
    bodies = re.findall(r"<tbody>(.*?)</tbody>", text, re.DOTALL)
    rows = [re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL) for body in bodies]
    cells = [[re.findall(r"<t[dh].*?>(.*?)</t[dh]>", row) for row in body] for body in rows]
    return [[[cell.replace("&nbsp;", " ") for cell in row] for row in body] for body in cells]


def test_a_source_has_one_row_in_each_slot(admin_client: Client) -> None:
    add("found", 60, total_us=1_200_000, ms_25=60)
    add("found", 30, token_id=2, total_us=600_000, ms_25=30, hours_ago=3)
    add("not_found", 8, total_us=4_000_000, ms_500=8)
    add("late", 2, total_us=6_000_000, ms_more=2)
    add("found", 1, slot="source_b", total_us=200, ms_1=1)
    ((first, second),) = tables(admin_client)
    assert first == ["source_a", "twilio", "100", "90", "8", "late 2", "0", "118", "18", "406"]
    assert second == ["source_b", "twilio", "1", "1", "0", "0", "0", "0.2", "0.5", "0.9"]


def test_what_was_answered_without_a_call_is_neither_a_call_nor_quick(admin_client: Client) -> None:
    add("cached_found", 50, total_us=50, ms_1=50)
    add("cached_not_found", 7, total_us=7, ms_1=7)
    add("breaker", 3, total_us=3, ms_1=3)
    add("busy", 2, total_us=2, ms_1=2)
    ((row,),) = tables(admin_client)
    assert row == ["source_a", "twilio", "0", "0", "0", "breaker 3, busy 2", "57", "-", "-", "-"]


def test_a_time_beyond_the_buckets_is_told_as_such(admin_client: Client) -> None:
    add("late", 1, total_us=9_000_000, ms_more=1)
    ((row,),) = tables(admin_client)
    assert row[-3:] == ["9000", "over 2500", "over 2500"]


def test_breakers_tell_how_often_they_opened_and_when_last(admin_client: Client) -> None:
    event: dict[str, Any] = {"slot": "", "token_id": 0}
    add("breaker_opened", 2, hours_ago=5, **event)
    add("breaker_opened", 1, hours_ago=2, **event)
    add("breaker_closed", 3, **event)
    add("breaker_closed", 1, connector="telnyx", **event)
    last = f"{this_hour() - timedelta(hours=2):%Y-%m-%d %H:%M}"
    assert tables(admin_client) == [[["telnyx", "0", "1", "-"], ["twilio", "3", "3", last]]]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, "7"),
        ({"hours": "1"}, "3"),
        ({"hours": "24"}, "7"),
        ({"hours": "168"}, "15"),
        *(({"hours": bad}, "7") for bad in ("", "2", "-1", "1e9", "24 ", "x", "٢٤", "1" * 5000)),
    ],
)
def test_the_period_is_asked_for_in_hours_and_anything_else_is_a_day(
    admin_client: Client, query: dict[str, str], expected: str
) -> None:
    for hours_ago, count in ((0, 1), (1, 2), (24, 4), (168, 8), (169, 16)):
        add(count=count, hours_ago=hours_ago)
    ((row,),) = tables(admin_client, **query)
    assert row[2] == expected


def test_before_anything_is_counted_a_sentence_says_what_will_be_here(admin_client: Client) -> None:
    add(hours_ago=100)
    assert "Nothing was counted since" in admin_client.get(URL).text
    assert tables(admin_client) == []


def test_as_many_queries_for_many_rows_as_for_few_and_one_of_them_sums(admin_client: Client) -> None:
    def queries() -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            assert admin_client.get(URL).status_code == 200
        return [query["sql"] for query in captured]

    add()
    few = len(queries())
    for token_id in range(30):
        add(token_id=token_id, connector=f"source {token_id % 3}")
    many = queries()
    assert len(many) == few
    (statement,) = [sql for sql in many if '"lookup_usage"' in sql]
    assert "GROUP BY" in statement


def test_nobody_changes_what_was_counted(admin_client: Client) -> None:
    add()
    row = Usage.objects.get()
    for path in ("add/", f"{row.pk}/change/", f"{row.pk}/delete/"):
        assert admin_client.post(URL + path, {"count": 5, "post": "yes"}).status_code == 403
    admin_client.post(URL, {"action": "delete_selected", "_selected_action": row.pk, "post": "yes"})
    assert Usage.objects.get().count == 1


def test_the_page_needs_the_permission_to_view(client: Client) -> None:
    assert client.get(URL)["Location"].startswith("/admin/login/")
    user = User.objects.create_user("limited", password="x", is_staff=True)
    client.force_login(user)
    assert client.get(URL).status_code == 403
    user.user_permissions.set(Permission.objects.filter(codename="view_usage"))
    assert client.get(URL).status_code == 200


def test_the_admin_leads_to_it(admin_client: Client) -> None:
    assert re.search(rf'<a href="{URL}"[^>]*>Usage</a>', admin_client.get("/admin/").text)


def test_the_page_brings_no_script_or_style_of_its_own_and_escapes_names(admin_client: Client) -> None:
    add(connector="<b>x</b>")
    text = admin_client.get(URL).text
    assert "&lt;b&gt;x&lt;/b&gt;" in text
    assert not re.search(r"<style|<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=", text)
