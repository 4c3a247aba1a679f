"""Why was this charged: what the ledger and the request log show of a charge, refunds, repeated charges, time zones."""

import html
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts import credits, customers, tokens
from accounts.models import ApiToken, CreditEntry
from contrib.request_log import logged_charges
from contrib.request_log.models import RequestLogEntry
from core import numbers
from core.hashing import keyed_hash
from tests.accounts.admin.pages import query_count
from tests.console.role_table import logged_in
from tests.console_pages import words
from tests.phonebook.admin.pages import COMPLAINTS, MODELS

pytestmark = pytest.mark.django_db

REQUESTS, LEDGER = "/admin/request_log/requestlogentry/", "/admin/accounts/creditentry/"
NUMBER, OTHER = "493023125042", "493023125043"
MARK = "repeated within 1 minute"


@pytest.fixture
def token() -> ApiToken:
    return tokens.issue(name="pbx", initial_credits=30, actor="op").token


def charged(token: ApiToken, *, seconds_ago: float, number: str = NUMBER, request_id: str = "same") -> CreditEntry:
    """A ledger entry and its row of the request log, which is written 0.1 s later."""
    at, number_hash = timezone.now() - timedelta(seconds=seconds_ago), keyed_hash("number", number)
    entry = CreditEntry.objects.create(
        token=token, amount=-1, balance_after=1, kind="search", request_id=request_id, number_hash=number_hash,
        created_at=at,
    )  # fmt: skip
    log(token, at + timedelta(seconds=0.1), entry=entry, request_id=request_id, number_hash=number_hash, number=number)
    return entry


def log(token: ApiToken, at: datetime, *, number: str = NUMBER, **values: Any) -> RequestLogEntry:
    fields = {"status": 200, "outcome": "found_both", "charged": True, "replayed": False, "duration_us": 1, **values}
    return RequestLogEntry.objects.create(token=token, created_at=at, number_mask=numbers.mask(number), **fields)


def rows(client: Client, url: str, **parameters: Any) -> list[str]:
    """The words of each row of the list."""
    page = client.get(url, parameters).text
    return [words(cells) for cells in re.findall(r'<tr class="data-row.*?</tr>', page, re.DOTALL)]


# --- Outcome and number in the ledger -------------------------------------------------------------------------------


def test_ledger_shows_outcome_and_number_of_each_search(admin_client: Client, token: ApiToken) -> None:
    """Also where a client sends the same request id with every search."""
    charged(token, seconds_ago=300)
    charged(token, seconds_ago=200, number="12125550100")
    RequestLogEntry.objects.filter(number_mask=numbers.mask(NUMBER)).update(outcome="found_none")
    issued, newest, oldest = rows(admin_client, LEDGER)
    assert "both sources matched 1********00" in newest
    assert "no match 49********42" in oldest
    assert "matched" not in issued


def test_search_that_is_not_logged_has_no_outcome(admin_client: Client, token: ApiToken) -> None:
    entry = charged(token, seconds_ago=300)
    RequestLogEntry.objects.all().delete()
    assert "matched" not in rows(admin_client, LEDGER)[1]
    assert "No longer kept." in admin_client.get(f"{LEDGER}{entry.pk}/change/").text


@pytest.mark.parametrize("permissions", [("view_creditentry", "view_requestlogentry"), ("view_creditentry",)])
def test_outcome_needs_the_permission_of_the_request_log(
    staff: Any, token: ApiToken, permissions: tuple[str, ...]
) -> None:
    entry, visitor = charged(token, seconds_ago=300), staff(*permissions)
    expected = len(permissions) == 2
    assert ("both sources matched" in rows(visitor, LEDGER)[1]) is expected
    assert ("both sources matched" in visitor.get(f"{LEDGER}{entry.pk}/change/").text) is expected


@pytest.mark.parametrize("url", [LEDGER, REQUESTS])
def test_lists_run_as_many_statements_for_many_rows(admin_client: Client, token: ApiToken, url: str) -> None:
    charged(token, seconds_ago=300)
    few = query_count(admin_client, url)
    for n in range(20):
        charged(token, seconds_ago=n, request_id=f"r{n}")
    assert query_count(admin_client, url) == few


def test_details_of_charges_are_read_by_index(token: ApiToken) -> None:
    now = timezone.now()
    RequestLogEntry.objects.bulk_create(
        RequestLogEntry(
            created_at=now - timedelta(seconds=n), token=token, request_id=f"r{n}", status=200, outcome="found_both",
            charged=True, replayed=False, number_hash=keyed_hash("number", f"4930{n:08}"), duration_us=1,
        )
        for n in range(5_000)
    )  # fmt: skip
    entries = [charged(token, seconds_ago=n, request_id=f"r{n}") for n in range(10)]
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    with CaptureQueriesContext(connection) as ran:
        logged = logged_charges.requests_of(entries)
        assert len(logged_charges.repeated(list(logged.values()))) == 9
    plans = []
    for sql in (each["sql"] for each in ran.captured_queries if "LIMIT 1)" in each["sql"]):
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN {'QUERY PLAN ' if connection.vendor == 'sqlite' else ''}{sql}")
            plans.append(str(cursor.fetchall()))
    assert "requestlog_request_created" in plans[0]
    assert "requestlog_number_created" in plans[1]
    assert len(plans) == 2


# --- Repeated charges ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", [LEDGER, REQUESTS])
def test_second_charge_of_a_number_within_a_minute_is_marked(admin_client: Client, token: ApiToken, url: str) -> None:
    other = tokens.issue(name="crm", initial_credits=1, actor="op").token
    charged(token, seconds_ago=300, request_id="first")
    charged(token, seconds_ago=241, request_id="second")
    charged(token, seconds_ago=240, request_id="number", number=OTHER)
    charged(other, seconds_ago=239, request_id="token")
    charged(token, seconds_ago=170, request_id="later")
    log(token, timezone.now() - timedelta(seconds=150), charged=False, replayed=True, request_id="replayed")
    found = {text.removesuffix(" Refund").rpartition(" ")[2]: MARK in text for text in rows(admin_client, url)}
    assert {name for name, is_marked in found.items() if is_marked} == {"second"}
    assert {"first", "number", "token", "later"} <= set(found)
    [link] = re.findall(f'href="({REQUESTS}[0-9]+/change/)"[^>]*>earlier request<', admin_client.get(url).text)
    assert link == f"{REQUESTS}{RequestLogEntry.objects.get(request_id='first').pk}/change/"


def test_page_of_a_request_links_those_for_its_number(admin_client: Client, token: ApiToken) -> None:
    charged(token, seconds_ago=300, request_id="first")
    charged(token, seconds_ago=200, number=OTHER, request_id="other")
    charged(token, seconds_ago=100, request_id="last")
    page = admin_client.get(f"{REQUESTS}{RequestLogEntry.objects.get(request_id='first').pk}/change/").text
    [link] = re.findall(r'href="([^"]+)"[^>]*>Requests for this number<', page)
    assert NUMBER not in link
    listed = admin_client.get(html.unescape(link)).context["cl"].result_list
    assert [row.request_id for row in listed] == ["last", "first"]


@pytest.mark.parametrize("url", MODELS)
def test_page_of_a_number_links_its_requests(admin_client: Client, url: str) -> None:
    days = {"day": timezone.now().date(), "total": 1} if url == COMPLAINTS else {}
    page = f"{url}{MODELS[url].objects.create(number=NUMBER, **days).pk}/change/"
    assert admin_client.get(page).text.count("Requests for this number") == 1
    assert "Requests for this number" in logged_in("auditor").get(page).text


# --- Refunds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", [LEDGER, REQUESTS])
def test_both_lists_link_the_refund_of_a_charge(admin_client: Client, token: ApiToken, url: str) -> None:
    entry = charged(token, seconds_ago=300)
    link = f'href="{LEDGER}{entry.pk}/refund/"'
    assert link in admin_client.get(url).text
    request = RequestLogEntry.objects.get()
    assert link in admin_client.get(f"{REQUESTS}{request.pk}/change/").text
    refund = credits.refund(entry=entry, actor="op", reason="sorry")
    for page in (url, f"{REQUESTS}{request.pk}/change/"):
        text = admin_client.get(page).text
        assert link not in text
        assert f"Refunded on {refund.created_at:%Y-%m-%d} by op</a>" in text
        assert f"{LEDGER}{refund.pk}/change/" in text


@pytest.mark.parametrize("url", [LEDGER, REQUESTS])
@pytest.mark.parametrize("may_refund", [True, False])
def test_refund_is_offered_to_those_who_may_only(staff: Any, token: ApiToken, url: str, may_refund: bool) -> None:
    charged(token, seconds_ago=300)
    views = "view_creditentry", "view_requestlogentry"
    visitor = staff(*views, *(["refund_creditentry"] if may_refund else []))
    assert ("Refund" in rows(visitor, url)[-1]) is may_refund


# --- Customer and time zone ----------------------------------------------------------------------------------------


def test_requests_are_found_by_customer(admin_client: Client, token: ApiToken) -> None:
    customer = customers.create(name="Example Ltd", contacts=[])
    mine = tokens.issue(name="mine", initial_credits=1, actor="op", customer=customer).token
    charged(token, seconds_ago=300)
    charged(mine, seconds_ago=200)
    for value in (customer.pk, "example ltd", f"#{customer.pk}", str(customer)):
        [found] = rows(admin_client, REQUESTS, customer=value)
        assert "mine" in found
    assert len(rows(admin_client, REQUESTS, customer=customer.pk, outcome="found_both")) == 1
    assert rows(admin_client, REQUESTS, customer=customer.pk, outcome="replayed") == []
    response = admin_client.post(REQUESTS, {"customer": "example ltd"})
    assert response["Location"].endswith(f"?customer={customer.pk}")


@pytest.mark.parametrize("url", [LEDGER, REQUESTS])
def test_times_are_in_the_selected_zone_and_labelled(admin_client: Client, token: ApiToken, url: str) -> None:
    log(token, datetime(2026, 7, 1, 22, 30, tzinfo=UTC))
    CreditEntry.objects.create(
        token=token, amount=-1, balance_after=1, kind="search", created_at=datetime(2026, 7, 1, 22, 30, tzinfo=UTC)
    )
    day = {"since": "2026-07-01", "until": "2026-07-01"}
    assert "2026-07-01 22:30:00" in rows(admin_client, url, **day)[0]
    assert "Time (UTC) Token" in words(admin_client.get(url, day).text)
    berlin = {"since": "2026-07-02T00:30", "until": "2026-07-02T00:30", "zone": "Europe/Berlin"}
    [row] = rows(admin_client, url, **berlin)
    assert "2026-07-02 00:30:00" in row
    text = words(admin_client.get(url, berlin).text)
    assert "From (Europe/Berlin)" in text
    assert "Time (Europe/Berlin) Token" in text
    assert rows(admin_client, url, **{**berlin, "zone": ""}) == []


@pytest.mark.parametrize("zone", ["Mars/Base", "Europe", "../../etc/passwd"])
def test_unknown_time_zone_is_an_error_and_lists_nothing(admin_client: Client, token: ApiToken, zone: str) -> None:
    log(token, timezone.now())
    assert rows(admin_client, REQUESTS, zone=zone) == []
    assert admin_client.get(REQUESTS, {"zone": zone}).context["cl"].form.errors["zone"]


# --- Suggestions ---------------------------------------------------------------------------------------------------


def test_customers_are_suggested_by_a_part_of_their_name(admin_client: Client, admin_user: User) -> None:
    customer = customers.create(name="Harbour Street Clinic", contacts=[])
    customers.create(name="Other", contacts=[])
    page = admin_client.get(REQUESTS).text
    [url] = re.findall(r'data-suggest="([^"]+)"', page)
    found = admin_client.get(f"{url.replace('&amp;', '&')}&term=street").json()["results"]
    assert found == [{"id": str(customer.pk), "text": str(customer), "detail": ""}]
    key = tokens.issue(name="pbx", initial_credits=1, actor="op").api_key
    assert admin_client.get(f"{url.replace('&amp;', '&')}&term={key}").json()["results"] == []
