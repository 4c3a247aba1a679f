"""The console's Request log: what it lists, its filters, and that each is served by one index."""

import html
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts import customers, tokens
from accounts.models import ApiToken, CreditEntry
from contrib.request_log import log
from contrib.request_log.models import RequestLogEntry
from core import numbers, write_buffer
from core.hashing import keyed_hash
from tests.accounts.admin.pages import query_count
from tests.api import Integrator
from tests.console_pages import table, words

pytestmark = pytest.mark.django_db

URL = "/admin/request_log/requestlogentry/"
LEDGER = "/admin/accounts/creditentry/"
NUMBER, OTHER = "493023125042", "493023125043"
T = "tests.connectors."


@pytest.fixture
def token() -> ApiToken:
    return tokens.issue(name="pbx", initial_credits=30, actor="op").token


def row(token: ApiToken, *, minutes: float = 0, number: str = NUMBER, **values: Any) -> RequestLogEntry:
    """A row that was written so many minutes ago."""
    fields = {
        "created_at": timezone.now() - timedelta(minutes=minutes),
        "request_id": f"request-{minutes}",
        "status": 200,
        "outcome": "found_both",
        "charged": True,
        "replayed": False,
        "number_mask": numbers.mask(number),
        "number_hash": keyed_hash("number", number),
        "duration_us": 2_345,
        **values,
    }
    return RequestLogEntry.objects.create(token=token, **fields)


def ids(response: Any) -> list[str]:
    return [row.request_id for row in response.context["cl"].result_list]


def listed(client: Client, **filters: str) -> list[str]:
    """The request ids that the list shows for these filters in its URL."""
    return ids(client.get(URL, filters))


def searched(client: Client, **filters: str) -> Any:
    return client.post(URL, filters, follow=True)


# --- The list ----------------------------------------------------------------------------------------------------


def test_request_with_a_test_token_called_no_source(admin_client: Client, token: ApiToken) -> None:
    entry = row(token, outcome="test", charged=False)
    text = words(admin_client.get(f"{URL}{entry.pk}/change/").text)
    assert text.count("Requests with test tokens call no source.") == 2
    assert "refused or replayed" not in text


def test_list_shows_what_happened(admin_client: Client, integrator: Integrator, settings: Any) -> None:
    settings.SOURCE_A, settings.SOURCE_B = T + "Fails", T + "KnowsName"
    response = integrator.search(Idempotency_Key="k")
    integrator.search(Idempotency_Key="k")
    write_buffer.process_buffer.flush()
    page = admin_client.get(URL).text
    rows = [words(cells) for cells in re.findall(r'<tr class="data-row.*?</tr>', page, re.DOTALL)]
    assert len(rows) == 2
    assert re.search(r"49\*{8}42 replayed - - no, replayed \S+ -", rows[0])
    degraded = r"49\*{8}42 degraded: one matched failed: down [\d.]+ ms found [\d.]+ ms 1 credit \S+ Refund$"
    assert re.search(degraded, rows[1])
    request_id = response.headers["X-Request-ID"]
    link = f'href="{URL}{RequestLogEntry.objects.earliest("pk").pk}/change/">{request_id[:6]}…{request_id[-6:]}</a>'
    assert link in page
    assert f'data-copy-text="{request_id}"' in page
    assert NUMBER not in page
    assert f'href="/admin/accounts/apitoken/{integrator.token.pk}/change/"' in page


def test_page_tells_no_key_from_not_recorded(admin_client: Client, token: ApiToken) -> None:
    known, older = row(token, idempotency_key=False), row(token, minutes=5)
    for shown, text in ((known, "Idempotency-Key no"), (older, "Idempotency-Key not recorded")):
        assert text in words(admin_client.get(f"{URL}{shown.pk}/change/").text)


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({"idempotency_key": False}, "not sent Each request without a key is a new search, and charged as one."),
        ({"idempotency_key": True}, "sent A repeat with the same key and number within 24 hours is not charged."),
        ({"idempotency_key": True, "status": 500, "outcome": "failed"}, "sent Request"),
        ({"idempotency_key": False, "outcome": "test", "charged": False}, "not sent Request"),
    ],
)
def test_page_says_what_a_repeat_costs(
    admin_client: Client, token: ApiToken, values: dict[str, Any], shown: str
) -> None:
    entry = row(token, **values)
    assert f"Idempotency-Key {shown}" in words(admin_client.get(f"{URL}{entry.pk}/change/").text)


def test_page_of_a_charged_request_says_what_costs_a_credit(admin_client: Client, token: ApiToken) -> None:
    for charged in (True, False):
        entry = row(token, charged=charged)
        text = admin_client.get(f"{URL}{entry.pk}/change/").text
        assert ("An answered search costs one credit, even if nothing is found." in text) == charged


def test_list_runs_a_fixed_number_of_queries(admin_client: Client, token: ApiToken) -> None:
    row(token)
    few = query_count(admin_client, URL)
    for minutes in range(20):
        row(tokens.issue(name=f"t{minutes}", initial_credits=1, actor="op").token, minutes=minutes)
    assert query_count(admin_client, URL) == few <= 6


# --- Filters -----------------------------------------------------------------------------------------------------


@pytest.fixture
def rows(token: ApiToken) -> dict[str, RequestLogEntry]:
    other = tokens.issue(name="crm", initial_credits=1, actor="op").token
    failed: dict[str, Any] = {"status": 500, "outcome": "failed", "charged": False}
    return {
        "plain": row(token, request_id="plain"),
        "other": row(other, minutes=1, request_id="other", number=OTHER),
        "refused": row(token, minutes=2, request_id="refused", status=403, outcome="no_credits", charged=False),
        "late": row(token, minutes=3, request_id="late", failures="source_a:twilio:late"),
        "auth": row(
            other, minutes=4, request_id="auth", failures="source_a:ipqs:auth source_b:my.Own-1:late", **failed
        ),
        "old": row(token, minutes=60, request_id="old"),
    }


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, "plain other refused late auth old"),
        ({"token": "pbx"}, "plain refused late old"),
        ({"token": "crm"}, "other auth"),
        ({"request_id": "late"}, "late"),
        ({"outcome": "no_credits"}, "refused"),
        ({"outcome": "found_both"}, "plain other late old"),
        ({"status": "403"}, "refused"),
        ({"status": "200"}, "plain other late old"),
        ({"failed": "any"}, "late auth"),
        ({"failed": "source_a"}, "late auth"),
        ({"failed": "source_b"}, "auth"),
        ({"reason": "late"}, "late auth"),
        ({"failed": "source_a", "reason": "late"}, "late"),
        ({"failed": "source_b", "reason": "auth"}, ""),
        ({"failed": "any", "status": "500"}, "auth"),
        ({"failed": "any", "outcome": "found_both"}, "late"),
        ({"token": "pbx", "outcome": "found_both"}, "plain late old"),
        ({"token": "crm", "failed": "source_a"}, "auth"),
        ({"token": "pbx", "status": "200", "outcome": "found_both", "failed": "any"}, "late"),
        ({"request_id": "late", "token": "crm"}, ""),
    ],
)
@pytest.mark.usefixtures("rows")
def test_filters_select_their_rows(admin_client: Client, filters: dict[str, str], expected: str) -> None:
    assert listed(admin_client, **filters) == expected.split()
    assert ids(searched(admin_client, **filters)) == expected.split()


def test_configured_connectors_can_be_selected(
    admin_client: Client, rows: dict[str, RequestLogEntry], settings: Any
) -> None:
    settings.SOURCE_A = T + "Fails"
    name = f"{T}Fails"
    failed = row(rows["plain"].token, minutes=5, request_id="own", failures=f"source_a:{name}:down")
    row(rows["plain"].token, minutes=5, request_id="similar", failures=f"source_a:{name}Too:down")
    assert listed(admin_client, failed=name) == [failed.request_id]
    assert listed(admin_client, failed="twilio") == []
    assert "Select a value from the list." in admin_client.get(URL, {"failed": "twilio"}).text


@pytest.mark.usefixtures("rows")
def test_number_is_found_by_hash_and_in_no_url(admin_client: Client) -> None:
    response = searched(admin_client, number="+49 30 2312-5043", outcome="found_both")
    assert ids(response) == ["other"]
    number_hash = keyed_hash("number", OTHER).hex()
    [(address, _)] = response.redirect_chain
    assert unquote(address) == f"{URL}?outcome=found_both&number_hash={number_hash}-{numbers.mask(OTHER)}"
    assert f"Only requests for {numbers.mask(OTHER)}, the number searched for." in response.text
    assert "2312-5043" not in response.text
    again = searched(admin_client, outcome="found_both", number_hash=response.context["cl"].form.data["number_hash"])
    assert ids(again) == ["other"]
    assert ids(searched(admin_client, number=NUMBER, number_hash=number_hash)) != ["other"]
    log.erase([OTHER])
    response = admin_client.get(URL, {"number_hash": number_hash})
    assert ids(response) == []
    assert "Only requests for one number." in response.text


@pytest.mark.parametrize("typed", ["555 0107", "(212) 555-0107", "5550107"])
def test_number_without_country_code_is_not_searched_for(admin_client: Client, typed: str) -> None:
    response = searched(admin_client, number=typed)
    assert response.redirect_chain == []
    assert "Enter it with its country code" in response.text
    assert f'value="{typed}"' in response.text
    assert "No matching requests" not in response.text


def test_list_names_a_number_that_is_not_logged(admin_client: Client) -> None:
    for typed in ("+555 0107", "49 30 23125099"):
        response = searched(admin_client, number=typed, choose_period="7d")
        mask = numbers.mask(numbers.parse_typed(typed))
        number = f"{mask}, the number searched for"
        assert active_filters(response) == f"Only requests for {number}. Clear The last 7 days Clear"
        assert "No matching requests in this period." in response.text


@pytest.mark.parametrize(
    "junk", ["x", "a" * 63, "A" * 64, "a" * 64 + "\n", "x" + "a" * 64, "a" * 64 + "-4930***42", "é" * 64]
)
def test_malformed_hash_selects_nothing(admin_client: Client, rows: dict[str, RequestLogEntry], junk: str) -> None:
    assert listed(admin_client, number_hash=junk) == []


@pytest.mark.parametrize("plain", [NUMBER, "+493023125042"])
def test_a_plain_number_in_the_url_selects_nothing(
    admin_client: Client, rows: dict[str, RequestLogEntry], plain: str
) -> None:
    response = admin_client.get(URL, {"number": plain})
    assert ids(response) == []
    assert "a number in a URL would be logged" in words(response.text)


def active_filters(response: Any) -> str:
    return words(response.text.partition('aria-label="Active filters"')[2].partition("</ul>")[0]).removeprefix("> ")


def current_period(response: Any) -> list[str]:
    return re.findall(r'<button form="list-filters"[^>]* aria-current="true">([^<]+)<', response.text)


def test_period_buttons_submit_what_is_in_the_fields(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timezone, "now", lambda: datetime(2026, 3, 9, 14, 20, 30, tzinfo=UTC))

    def shown(**fields: str) -> tuple[str, str, list[str]]:
        """The query of the list's URL, the active filters and the current period."""
        response = searched(admin_client, status="500", **fields)
        [(url, _)] = response.redirect_chain
        return url.partition("?")[2], active_filters(response), current_period(response)

    status = "Status: 500 Clear"
    assert shown() == ("status=500", f"{status} The last 24 hours Clear", ["24 hours"])
    week = ("status=500&period=7d", f"{status} The last 7 days Clear", ["7 days"])
    assert shown(choose_period="7d", since="2026-01-01") == shown(choose_period="7d", period="30d") == week
    assert shown(period="7d") == week
    assert shown(period="7d", choose_period="24h") == shown()
    last_month = f"{status} From 2026-02-01 00:00 to 2026-02-28 23:59 (UTC) Clear"
    assert shown(choose_period="last-month") == ("status=500&period=last-month", last_month, ["Last month"])
    typed: tuple[str, str, list[str]]
    typed = ("status=500&since=2026-01-01T00%3A00", f"{status} From 2026-01-01 00:00 (UTC) Clear", [])
    assert shown(period="7d", since="2026-01-01") == typed
    january = f"{status} January 2026, UTC Clear"
    chosen = shown(choose_period="calendar", calendar="2026-01", since="2025-01-01", zone="Europe/Berlin")
    assert chosen == ("status=500&zone=Europe%2FBerlin&period=2026-01", january, [])
    assert shown(period="7d", choose_period="calendar", calendar="") == week
    assert shown(choose_period="calendar", since="2026-01-01") == typed
    for unknown in ("1d", "2026-13", "2026-Q5", "0000-01"):
        assert "Select one of the periods." in admin_client.get(URL, {"period": unknown}).text


def offered(response: Any) -> list[str]:
    return re.findall(r'<option value="(20[0-9]{2}-[^"]+)"', response.text)


def test_no_month_is_selected_while_another_period_is(admin_client: Client) -> None:
    month = f"{timezone.now():%Y-%m}"
    for query, selected in (({}, ""), ({"period": "7d"}, ""), ({"period": month}, month)):
        select = admin_client.get(URL, query).text.partition('<select name="calendar"')[2].partition("</select>")[0]
        assert re.findall(r'<option value="([^"]*)"', select)[0] == ""
        assert (re.findall(r'<option value="([^"]*)" selected', select) or [""]) == [selected]


def test_log_offers_no_month_before_it_begins(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.setattr(timezone, "now", lambda: datetime(2026, 4, 3, 14, 20, 30, tzinfo=UTC))
    assert offered(admin_client.get(URL)) == ["2026-04", "2026-03", "2026-Q2", "2026-Q1"]
    settings.REQUEST_LOG_DAYS = 2
    assert offered(admin_client.get(URL)) == ["2026-04", "2026-Q2"]
    earlier = admin_client.get(URL, {"period": "2026-Q1"})
    assert "period=2026-Q1" in earlier.text.partition("empty")[2] or "creditentry/?period=2026-Q1" in earlier.text


def test_periods_of_days_begin_at_the_current_minute(admin_client: Client, token: ApiToken) -> None:
    for hours in (1, 7 * 24 - 1, 7 * 24 + 1, 30 * 24 - 1, 30 * 24 + 1):
        row(token, minutes=hours * 60, request_id=f"{hours}")
    assert listed(admin_client, period="7d") == ["1", "167"]
    assert listed(admin_client, period="30d", request_id="719") == ["719"]
    assert listed(admin_client, period="24h", request_id="167") == []


def test_number_and_request_id_search_the_whole_log_by_default(admin_client: Client, token: ApiToken) -> None:
    for minutes in (10, 26 * 60, 6 * 24 * 60):
        row(token, minutes=minutes, request_id="mine" if minutes > 60 else "new")
    response = searched(admin_client, number=NUMBER, zone="Pacific/Honolulu")
    assert ids(response) == ["new", "mine", "mine"]
    assert active_filters(response).endswith("Clear The whole time, unless you select a period")
    assert f"Requests for {numbers.formatted(NUMBER)} in the whole time." in words(response.text)
    assert "Requests for +" not in admin_client.get(response.redirect_chain[-1][0]).text
    selected = searched(admin_client, number=NUMBER, choose_period="24h")
    assert f"Requests for {numbers.formatted(NUMBER)} in the selected period." in words(selected.text)
    assert current_period(response) == []
    assert listed(admin_client, request_id="mine", outcome="found_both") == ["mine", "mine"]
    assert "Search the whole time" not in admin_client.get(URL, {"request_id": "none"}).text
    assert listed(admin_client, token="pbx") == ["new"]
    digest = keyed_hash("number", NUMBER).hex()
    limited = searched(admin_client, number_hash=digest, choose_period="24h")
    assert ids(limited) == ["new"]
    assert current_period(limited) == ["24 hours"]
    two_days_ago, yesterday = (f"{timezone.now() - timedelta(hours=hours):%Y-%m-%dT%H:%M}" for hours in (40, 25))
    assert listed(admin_client, number_hash=digest, since=two_days_ago) == ["new", "mine"]
    assert listed(admin_client, number_hash=digest, until=yesterday) == ["mine", "mine"]


FILTERS = {
    "": "requestlog_created",
    "token=pbx": "requestlog_token_created",
    "customer={customer}": "requestlog_token_created",
    "request_id=request-7": "requestlog_request_created",
    "number_hash={number}": "requestlog_number_created",
    "outcome=replayed": "requestlog_outcome_created",
    "status=500": "requestlog_status_created",
    "failed=any": "requestlog_failed_created",
    "failed=source_a&reason=late": "requestlog_failed_created",
}


def test_each_filter_reads_one_index(admin_client: Client, token: ApiToken) -> None:
    """Also where PostgreSQL believes a value to be common: nothing is sorted, and the table is not scanned."""
    other = tokens.issue(name="crm", initial_credits=1, actor="op").token
    customer = customers.create(name="Example Ltd", contacts=[]).pk
    ApiToken.objects.filter(pk=other.pk).update(customer=customer)
    now = timezone.now()
    RequestLogEntry.objects.bulk_create(
        RequestLogEntry(
            created_at=now - timedelta(seconds=n),
            token=token if n % 2 else other,
            request_id=f"request-{n % 9}",
            status=200 if n % 10 else 500,
            outcome="replayed" if n % 3 else "failed",
            charged=False,
            replayed=False,
            number_hash=keyed_hash("number", NUMBER if n % 2 else OTHER),
            duration_us=1,
            failures="" if n % 10 else "source_a:x:late",
        )
        for n in range(5_000)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    digest = keyed_hash("number", NUMBER).hex()
    for query, index in FILTERS.items():
        with CaptureQueriesContext(connection) as ran:
            assert admin_client.get(f"{URL}?{query.format(number=digest, customer=customer)}").status_code == 200
        read = [each["sql"] for each in ran.captured_queries if "requestlogentry" in each["sql"]]
        read = [sql for sql in read if ' AS "earlier_id"' not in sql and "LIMIT 1)" not in sql]
        assert read, query
        for sql in read:
            with connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN {'QUERY PLAN ' if connection.vendor == 'sqlite' else ''}{sql}")
                plan = str(cursor.fetchall())
            # The newest rows of a customer since a time may be read by that time.
            is_last = sql == read[-1] and query == "customer={customer}"
            assert index in plan or (is_last and "requestlog_created" in plan), query
            assert "Seq Scan on lookup" not in plan, query


@pytest.mark.parametrize("may_view_ledger", [True, False])
def test_period_before_the_log_links_its_ledger(staff: Any, token: ApiToken, may_view_ledger: bool) -> None:
    client = staff("view_requestlogentry", *(["view_creditentry"] if may_view_ledger else []))
    entry = CreditEntry.objects.create(
        token=token, amount=-1, balance_after=1, kind="search", request_id="r",
        created_at=timezone.now() - timedelta(days=20),
    )  # fmt: skip
    period = {"since": f"{entry.created_at:%Y-%m-%d}", "until": f"{entry.created_at:%Y-%m-%d}"}
    text = client.get(URL, {**period, "token": f"#{token.pk}", "status": "200"}).text
    assert "Requests are kept for 7 days, ledger entries for good." in text
    links = re.findall(rf'href="({LEDGER}[^"]+since[^"]+)"', text)
    assert len(links) == may_view_ledger
    assert all(list(client.get(html.unescape(link)).context["cl"].result_list) == [entry] for link in links)
    assert "Requests are kept" not in client.get(URL, {"status": "403"}).text
    assert "Requests are kept for 7 days" in client.get(URL, {"request_id": "unknown"}).text


# --- A request's page, and the ledger's links --------------------------------------------------------------------


def test_page_shows_each_call_with_advice_and_duration(
    admin_client: Client, integrator: Integrator, settings: Any
) -> None:
    customer = customers.create(name="Example Ltd", contacts=[])
    ApiToken.objects.filter(pk=integrator.token.pk).update(customer=customer)
    settings.SOURCE_A, settings.SOURCE_B = f"{T}Raises,{T}KnowsName", T + "KnowsNothing"
    integrator.search()
    write_buffer.process_buffer.flush()
    entry = CreditEntry.objects.get(kind="search")
    response = admin_client.get(f"{URL}{RequestLogEntry.objects.get().pk}/change/")
    calls = table(response.text, "Source A")
    assert [(cells[0], cells[1], cells[3]) for cells in calls] == [
        (f"{T}Raises", "failed: error it raised RuntimeError", "See the log, and correct the connector."),
        (f"{T}KnowsName", "found", "-"),
    ]
    assert [cells[1] for cells in table(response.text, "Source B")] == ["not found"]
    for link in (
        f"/admin/accounts/creditentry/{entry.pk}/change/",
        f"/admin/accounts/apitoken/{integrator.token.pk}/change/",
        f"/admin/accounts/customer/{customer.pk}/change/",
    ):
        assert f'href="{link}"' in response.text
    assert "49********42" in response.text
    assert NUMBER not in response.text


def test_ledger_links_token_and_request(admin_client: Client, integrator: Integrator, settings: Any) -> None:
    row(integrator.token, minutes=60, request_id="same")
    integrator.search(X_Request_ID="same")
    write_buffer.process_buffer.flush()
    page = admin_client.get(LEDGER).text
    assert f'href="/admin/accounts/apitoken/{integrator.token.pk}/change/"' in page
    [link] = re.findall(r'href="([^"]+)">same</a>', page)
    [listed_row] = admin_client.get(link.replace("&amp;", "&")).context["cl"].result_list
    assert listed_row.entry == CreditEntry.objects.get(kind="search")
    settings.REQUEST_LOG_DAYS = 0
    assert "The request log is off" in admin_client.get(URL).text
