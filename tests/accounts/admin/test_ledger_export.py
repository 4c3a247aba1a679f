"""The ledger as CSV: what the list selects, a page at a time, while searches are charged."""

import codecs
import csv
import http.client
import io
import re
import sqlite3
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts import audit, credits, tokens
from accounts.admin import ledger_export
from accounts.admin.ledger_queries import LedgerForm
from accounts.models import ApiToken, CreditEntry, Customer
from core.long_lists import EVER
from core.periods import CalendarPeriod
from tests import awaited
from tests.accounts.admin.pages import LEDGER, NUMBER
from tests.console_pages import words
from tests.service import Service

EXPORT = f"{LEDGER}export/"


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def exported(client: Client, **parameters: Any) -> list[dict[str, str]]:
    response: Any = client.post(EXPORT, query_params=parameters)
    assert response.status_code == 200
    return table(response.getvalue().decode("utf-8-sig"))


def search(token: ApiToken, how_many: int = 1) -> None:
    for _ in range(how_many):
        awaited.charge(token=token, request_id="req", number=NUMBER, answer={})


@pytest.mark.django_db
def test_export_has_every_column_of_the_ledger(admin_client: Client, token: ApiToken) -> None:
    search(token)
    credits.refund(entry=token.entries.get(kind="search"), actor="op", reason="wrong")
    credits.top_up(token=token, amount=5, actor="op", reason="paid", reference="INV-1")
    response: Any = admin_client.post(EXPORT)
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    day_ago = f"{timezone.now() - timedelta(hours=24):%Y-%m-%dT%H}"
    name = re.escape(f'attachment; filename="ledger-from-{day_ago}') + r'\d\d\.csv"'
    assert re.fullmatch(name, response["Content-Disposition"])
    assert "no-store" in response["Cache-Control"]
    content = response.getvalue()
    assert content.startswith(codecs.BOM_UTF8)  # or Excel would not read UTF-8
    lines = content.decode("utf-8-sig")
    header = (
        "row,time,token_id,token,customer_id,customer,kind,credits,balance_after,request_id,by,reason,reference,"
        "refunds_row,price,other_token_id\r\n"
    )
    assert lines.startswith(header)
    top_up, refund, searched, issued = token.entries.order_by("-pk")
    whose = f"{token.pk},pbx,,"
    assert lines.removeprefix(header).split("\r\n") == [
        f"{top_up.pk},{top_up.created_at:%Y-%m-%dT%H:%M:%S.%fZ},{whose},top-up,5,35,,op,paid,INV-1,,,",
        f"{refund.pk},{refund.created_at:%Y-%m-%dT%H:%M:%S.%fZ},{whose},refund,1,30,,op,wrong,,{searched.pk},,",
        f"{searched.pk},{searched.created_at:%Y-%m-%dT%H:%M:%S.%fZ},{whose},search,-1,29,req,,,,,,",
        f"{issued.pk},{issued.created_at:%Y-%m-%dT%H:%M:%S.%fZ},{whose},issue,30,30,,test,,,,,",
        "",
    ]
    assert bytes(searched.number_hash or b"").hex() not in lines


@pytest.mark.django_db
def test_name_of_the_file_has_the_month_or_quarter(admin_client: Client, token: ApiToken) -> None:
    start = CalendarPeriod.parse("2026-01")
    assert start
    moments = (start.since - timedelta(microseconds=1), start.since, start.next.next.until, start.next.next.next.since)
    for number, at in enumerate((*moments, start.next.next.until - timedelta(microseconds=1))):
        CreditEntry.objects.create(
            token=token, amount=1, balance_after=1, kind="top-up", created_at=at, reference=f"{number}"
        )
    for period, expected in (("2026-Q1", ["4", "1"]), ("2025-12", ["0"]), ("2026-Q3", [])):
        response: Any = admin_client.post(EXPORT, query_params={"period": period})
        assert response["Content-Disposition"] == f'attachment; filename="ledger-{period}.csv"'
        assert [row["reference"] for row in table(response.getvalue().decode("utf-8-sig"))] == expected
    last = CalendarPeriod.of(timezone.now()).previous
    response = admin_client.post(EXPORT, query_params={"period": "last-month"})
    assert response["Content-Disposition"] == f'attachment; filename="ledger-{last.key}.csv"'
    listed = re.findall(r'<option value="(20[^"]+)"', admin_client.get(LEDGER).text)
    assert {"2025-12", "2025-Q4", f"{timezone.now():%Y-%m}"} <= set(listed)
    assert "2025-11" not in listed


CELLS = {
    "=HYPERLINK(1)": "'=HYPERLINK(1)",
    "+1": "'+1",
    "-1": "'-1",
    "@SUM(1)": "'@SUM(1)",
    "＝1": "'＝1",
    "＋1": "'＋1",
    "－1": "'－1",
    "＠SUM(1)": "'＠SUM(1)",
    ";=1": ";'=1",
    "paid;=1;2;-3": "paid;'=1;2;'-3",
    "paid; ＝1": "paid;' ＝1",
    "\t=1": "\t'=1",
    "paid\r\n=1": "paid\r\n'=1",
    '"=1': "'\"=1",
    "'=1": "''=1",
    ' "" \N{NO-BREAK SPACE}=1': '\' "" \N{NO-BREAK SPACE}=1',
    'paid;"=1"': 'paid;\'"=1"',
    "": "",
    "paid": "paid",
    "1 + 1 = 2; 3 - 1 = 2": "1 + 1 = 2; 3 - 1 = 2",
    "INV-17, ＝": "INV-17, ＝",
}


@pytest.mark.django_db
@pytest.mark.parametrize(("text", "cell"), CELLS.items())
def test_no_cell_is_a_spreadsheet_formula(admin_client: Client, token: ApiToken, text: str, cell: str) -> None:
    CreditEntry.objects.create(
        token=token, amount=-5, balance_after=1, kind="adjustment", actor=text, reason=text, reference=text
    )
    ApiToken.objects.filter(pk=token.pk).update(name=text)
    row = exported(admin_client)[0]
    assert [row[name] for name in ("token", "by", "reason", "reference")] == [cell] * 4
    assert row["credits"] == "-5"


@pytest.mark.django_db
def test_export_has_the_entries_of_the_list_and_a_matching_name(admin_client: Client, token: ApiToken) -> None:
    other = tokens.issue(name="other", initial_credits=3, actor="test").token
    search(token, 2)
    search(other)
    day = f"{timezone.now():%Y-%m-%d}"
    for parameters, rows, name in (
        ({"token": f"#{other.pk}", "since": day}, 2, f"ledger-token-{other.pk}-from-{day}T0000"),
        ({"token": "oth", "kind": "search", "since": day}, 1, f"ledger-token-{other.pk}-search-from-{day}T0000"),
        ({"kind": "booked", "since": day}, 2, f"ledger-booked-from-{day}T0000"),
        ({"until": "2026-01-01"}, 0, "ledger-from-2025-12-31T2359-to-2026-01-01T2359"),
        ({"request_id": "req"}, 3, f"ledger-from-{EVER}T0000"),
    ):
        listed = [row.pk for row in admin_client.get(LEDGER, parameters).context["cl"].result_list]
        assert [int(row["row"]) for row in exported(admin_client, **parameters)] == listed
        assert len(listed) == rows
        assert f'"{name}.csv"' in admin_client.post(EXPORT, query_params=parameters)["Content-Disposition"]


@pytest.mark.django_db
def test_export_button_keeps_the_filters(admin_client: Client, token: ApiToken) -> None:
    text = admin_client.get(LEDGER, {"kind": "issue", "token": f"#{token.pk}", "since": "2026-01-01", "p": "1"}).text
    assert f'action="{EXPORT}?token=%23{token.pk}&amp;kind=issue&amp;since=2026-01-01T00%3A00"' in text
    assert f'action="{EXPORT}?"' in admin_client.get(LEDGER).text


@pytest.mark.django_db
def test_export_button_says_whose_entries_it_exports(admin_client: Client, token: ApiToken) -> None:
    customer = Customer.objects.create(name="Maple")
    customer.tokens.add(token)
    for parameters, scope in (
        ({}, "all customers"),
        ({"customer": "map"}, f"Maple (#{customer.pk})"),
        ({"token": "pbx", "kind": "booked"}, f"token #{token.pk}"),
    ):
        assert f"Export as CSV: {scope}" in words(admin_client.get(LEDGER, parameters).text)


@pytest.mark.django_db
def test_export_is_refused_while_the_text_is_ambiguous(admin_client: Client, token: ApiToken) -> None:
    tokens.issue(name="pbx 2", initial_credits=3, actor="test")
    response = admin_client.post(EXPORT, query_params={"token": "pbx"})
    assert (response.status_code, response["Location"]) == (302, f"{LEDGER}?token=pbx")
    text = admin_client.get(LEDGER, {"token": "pbx"}).text
    assert EXPORT not in text
    assert "2 tokens match &quot;pbx&quot;. Select one:" in text
    assert [row["token"] for row in exported(admin_client, token=f"#{token.pk}")] == ["pbx"]


@pytest.mark.django_db
@pytest.mark.parametrize("parameters", [{}, {"token": "pbx"}, {"kind": "booked"}])
def test_pages_have_no_gap_or_repeat_within_one_moment(
    admin_client: Client, token: ApiToken, monkeypatch: pytest.MonkeyPatch, parameters: dict[str, Any]
) -> None:
    """Seven entries of one moment and four of others, three to a page."""
    moment = timezone.now() - timedelta(hours=1)
    for n in range(11):
        CreditEntry.objects.create(
            token=token,
            amount=1,
            balance_after=n,
            kind="top-up",
            created_at=moment if n < 7 else moment - timedelta(seconds=n),
        )
    monkeypatch.setattr(ledger_export, "PAGE_ROWS", 3)
    with CaptureQueriesContext(connection) as ran:
        rows = [int(row["row"]) for row in exported(admin_client, **parameters)]
    assert rows == list(CreditEntry.objects.order_by("-created_at", "-pk").values_list("pk", flat=True))
    assert len(rows) == 12
    pages = [query["sql"] for query in ran if "refunds_id" in query["sql"]]
    assert len(pages) == 4
    assert all(re.search(r" LIMIT 4$", sql) for sql in pages)


@pytest.mark.django_db(transaction=True)
def test_concurrent_searches_neither_repeat_nor_hide_an_entry(token: ApiToken, monkeypatch: pytest.MonkeyPatch) -> None:
    search(token, 9)
    before = set(token.entries.values_list("pk", flat=True))
    monkeypatch.setattr(ledger_export, "PAGE_ROWS", 2)
    pages, text = ledger_export.as_csv(LedgerForm({"token": f"#{token.pk}"})), ""
    for page in pages:
        text += page.removeprefix("\ufeff")
        search(token)
    rows = [int(row["row"]) for row in table(text)]
    assert len(rows) == len(set(rows))
    assert set(rows) == before
    assert audit.audit() == []


@pytest.mark.django_db
def test_slow_download_holds_few_entries(token: ApiToken) -> None:
    texts = {"actor": "a" * 100, "reason": "b" * 180, "request_id": "c" * 40}
    CreditEntry.objects.bulk_create(
        CreditEntry(token=token, amount=1, balance_after=n, kind="top-up", **texts) for n in range(1_000)
    )
    tracemalloc.start()
    try:
        parts = ledger_export.as_csv(LedgerForm({}))
        next(parts)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 700_000


# --- Over the wire -----------------------------------------------------------------------------------------------

ROWS = 100_000


@pytest.fixture
def service(serve: Callable[..., Service]) -> Service:
    """With ROWS searches of one token, and a superuser root."""
    service = serve()
    fill_ledger(service)
    return service


def fill_ledger(service: Service) -> None:
    script = f"""
from datetime import timedelta
from django.contrib.auth.models import User
from django.utils import timezone
from accounts import tokens
from accounts.models import CreditEntry
User.objects.create_superuser("root", "", "root")
token = tokens.issue(name="pbx", initial_credits=1, actor="test").token
start = timezone.now() - timedelta(days=1)
CreditEntry.objects.bulk_create((
    CreditEntry(token=token, amount=-1, balance_after=1, kind="search", request_id=f"request-{{n}}-" + "x" * 40,
                created_at=start + timedelta(milliseconds=n))
    for n in range({ROWS})), batch_size=5_000)
"""
    service.manage("shell", "--no-imports", "-c", script)


@contextmanager
def download(service: Service) -> Iterator[http.client.HTTPResponse]:
    """The export's response, with its body unread."""
    csrf = "x" * 32  # cookie and header are compared, and any value will do
    script = "from django.test import Client; c = Client(); c.login(username='root', password='root')"
    session = service.manage("shell", "--no-imports", "-c", f"{script}; print(c.cookies['sessionid'].value)")
    with closing(http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)) as peer:
        cookies = f"sessionid={session.strip()}; csrftoken={csrf}"
        peer.request(
            "POST", f"{EXPORT}?since={EVER}", headers={"Cookie": cookies, "X-CSRFToken": csrf, "Content-Length": "0"}
        )
        with peer.getresponse() as response:
            yield response


def rename_the_ledger_table(service: Service) -> None:
    rename = "ALTER TABLE accounts_creditentry RENAME TO elsewhere"
    if url := service.env.get("DATABASE_URL"):
        with psycopg.connect(url, autocommit=True) as database:
            database.execute(rename)
    else:
        path = Path(service.env["CALLERID_DATA_DIR"]) / "callerid.sqlite3"
        with closing(sqlite3.connect(path, timeout=30)) as database:
            database.execute(rename)


@pytest.mark.slow
def test_long_export_is_complete_or_says_that_it_is_not(service: Service) -> None:
    with download(service) as response:
        assert response.status == http.HTTPStatus.OK
        rows = table(response.read().decode("utf-8-sig"))
    assert len({row["row"] for row in rows}) == len(rows) == ROWS + 1
    assert rows[-1]["request_id"] == f"request-0-{'x' * 40}"
    with download(service) as response:  # read slowly, so that the server waits and the next page fails
        begun = response.read(100)
        rename_the_ledger_table(service)
        *rows, last = table((begun + response.read()).decode("utf-8-sig"))
    assert last["row"] == ledger_export.INCOMPLETE
    assert 0 < len(rows) < ROWS
    assert all(row["row"].isdigit() for row in rows)
    assert "the ledger export ended early" in service.log()


@pytest.mark.slow
@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has no connections that could be closed")
def test_export_goes_on_after_its_connections_were_closed(service: Service) -> None:
    """Each thread of pages has one, and any of them may read the next rows."""
    with download(service) as response:
        begun = response.read(100)
        with psycopg.connect(service.env["DATABASE_URL"], autocommit=True) as database:
            idle = "WHERE datname = current_database() AND state = 'idle'"
            assert database.execute(f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity {idle}").rowcount
        rows = table((begun + response.read()).decode("utf-8-sig"))
    assert len({row["row"] for row in rows}) == len(rows) == ROWS + 1
