"""A customer's own ledger as CSV, by the link to its page: its entries alone, without what is for operators only."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from accounts import credits, customers
from accounts.admin import ledger_export
from accounts.models import ApiToken, CreditEntry, Customer
from callerid_project.page_handler import PAGE_THREADS
from contrib.customer_page import links
from contrib.customer_page.tests.test_customer_page import HTML, NUMBER, token_of, url_of
from tests import awaited
from tests.accounts.admin.pages import issue_token
from tests.accounts.admin.test_ledger_export import ROWS, fill_ledger, table
from tests.raw_http import Connection, request
from tests.service import Service

HEADER = "time,token,last_four,kind,credits,balance_after,request_id,reference"


@pytest.fixture(autouse=True)
def _pages_on(settings: Any) -> None:
    settings.CUSTOMER_PAGES = True


@pytest.fixture
def customer(db: None) -> Customer:
    return customers.create(name="Example Ltd")


def rows_of(client: Client, owner: Customer, **parameters: Any) -> list[dict[str, str]]:
    response: Any = client.get(f"{url_of(owner)}.csv", parameters)
    assert response.status_code == 200
    return table(read(response))


def read(response: Any) -> str:
    """To its end, which closes it."""
    text: str = response.getvalue().decode("utf-8-sig")
    return text


def entry(token: ApiToken, at: datetime, **values: Any) -> CreditEntry:
    given = {"amount": 1, "balance_after": 1, "kind": "top-up", **values}
    return CreditEntry.objects.create(token=token, created_at=at, **given)


def test_csv_has_what_the_customer_may_know(client: Client, customer: Customer) -> None:
    token, other = token_of(customer), token_of(customer, "desk", 0)
    awaited.charge(token=token, request_id="request-1", number=NUMBER, answer={})
    credits.refund(entry=token.entries.get(kind="search"), actor="boss", reason="wrong number")
    price = Decimal("12.34")
    credits.top_up(token=token, amount=5, actor="boss", reason="paid late", reference="INV-1", price=price)
    credits.transfer(from_token=token, to_token=other, amount=4, reason="closed", actor="boss", reference="move-1")
    response: Any = client.get(f"{url_of(customer)}.csv", headers=HTML)
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    assert response["Content-Disposition"] == f'attachment; filename="ledger-{timezone.now():%Y-%m}.csv"'
    text = read(response)
    assert text.partition("\r\n")[0] == HEADER
    lines = [line.partition(",") for line in text.splitlines()[1:]]
    # A `-` at their start is neutralized.
    till, desk = (f"{each.name},{ledger_export.cell(each.last_four)}" for each in (token, other))
    assert {rest for _, _, rest in lines[:2]} == {f"{till},transfer,-4,31,,move-1", f"{desk},transfer,4,4,,move-1"}
    assert [rest for _, _, rest in lines[2:]] == [
        f"{till},top-up,5,35,,INV-1",
        f"{till},refund,1,30,,",
        f"{till},search,-1,29,request-1,",
        f"{desk},issue,0,0,,",
        f"{till},issue,30,30,,",
    ]
    assert lines[2][0] == f"{token.entries.get(reference='INV-1').created_at:%Y-%m-%dT%H:%M:%S.%fZ}"
    searched = token.entries.get(kind="search")
    hidden = ("boss", "wrong number", "paid late", "closed", "12.34", NUMBER, bytes(searched.number_hash or b"").hex())
    assert [secret for secret in hidden if secret in text] == []


def test_csv_has_no_entry_of_others(client: Client, customer: Customer) -> None:
    other = customers.create(name="Other Ltd")
    token_of(customer, "mine"), token_of(other, "theirs"), issue_token("of nobody")
    assert [row["token"] for row in rows_of(client, customer)] == ["mine"]
    assert [row["token"] for row in rows_of(client, customer, customer=other.pk, token="theirs")] == ["mine"]
    assert [row["token"] for row in rows_of(client, other)] == ["theirs"]
    assert rows_of(client, customers.create(name="Without tokens")) == []


def test_csv_has_one_month_newest_first(client: Client, customer: Customer, monkeypatch: pytest.MonkeyPatch) -> None:
    token = token_of(customer)
    month, end = datetime(2024, 2, 1, tzinfo=UTC), datetime(2024, 3, 1, tzinfo=UTC)
    instant = timedelta(microseconds=1)
    for number, at in enumerate((month - instant, month, month, month + timedelta(days=9), end - instant, end)):
        entry(token, at, reference=f"entry-{number}")
    monkeypatch.setattr(ledger_export, "PAGE_ROWS", 2)
    found = [row["reference"] for row in rows_of(client, customer, month="2024-02")]
    assert found == ["entry-4", "entry-3", "entry-2", "entry-1"]
    assert [row["kind"] for row in rows_of(client, customer)] == ["issue"]
    assert [rows_of(client, customer, month=empty) for empty in ("0001-01", "9999-12")] == [[], []]
    assert [row["reference"] for row in rows_of(client, customer, quarter="2024-Q1")] == [
        f"entry-{number}" for number in (5, 4, 3, 2, 1, 0)
    ]
    assert rows_of(client, customer, quarter="2023-Q4") == []


@pytest.mark.parametrize("month", ["2024", "2024-13", "2024-02-01", "0000-01", "x", "=1"])
def test_month_that_is_none_is_refused(client: Client, customer: Customer, month: str) -> None:
    response = client.get(f"{url_of(customer)}.csv", {"month": month})
    assert (response.status_code, response.json()) == (
        400,
        {"detail": "Enter a month as YYYY-MM, or a quarter as YYYY-Q1."},
    )


def test_no_cell_of_the_csv_is_a_formula(client: Client, customer: Customer) -> None:
    ApiToken.objects.filter(pk=token_of(customer).pk).update(name="=1+1", last_four="-abc")
    token = customer.tokens.get()
    entry(token, timezone.now(), amount=-5, kind="adjustment", reference="paid;@SUM(1)", request_id="+1")
    first, second = rows_of(client, customer)
    cells = [first[name] for name in ("token", "last_four", "credits", "request_id", "reference")]
    assert cells == ["'=1+1", "'-abc", "-5", "'+1", "paid;'@SUM(1)"]
    assert second["token"] == "'=1+1"


def test_page_offers_the_months_since_the_first_token(
    client: Client, customer: Customer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = url_of(customer, 90)
    assert ".csv" not in client.get(url).text
    now = timezone.now()
    token = token_of(customer)
    for age, count in ((0, 1), (31, 2), (5_000, 12)):
        ApiToken.objects.filter(pk=token.pk).update(created_at=now.replace(day=28) - timedelta(days=age))
        (_, months), (_, quarters) = client.get(url).context["calendars"]
        offered = [each.key for each in months]
        assert (len(offered), offered[0]) == (count, f"{now:%Y-%m}")
    text = client.get(url).text
    assert f'href="{url}.csv?month={offered[-1]}"' in text
    assert f'href="{url}.csv?quarter={quarters[-1].key}"' in text
    assert offered == sorted(set(offered), reverse=True)


def test_csv_is_limited_and_private_as_the_page_is(client: Client, customer: Customer, settings: Any) -> None:
    settings.AUTH_FAILURE_RATE = (2, 60)
    url = f"{url_of(customer)}.csv"
    links.revoke(customer=customer)
    for path, status, detail in (
        (url, 410, "This link has expired or was revoked"),
        ("/customer/guess.csv", 404, "This link is not valid"),
        ("/customer/guess.csv", 429, "Rate limit exceeded"),
    ):
        response = client.get(path, headers=HTML)
        assert (response.status_code, response.json()) == (status, {"detail": detail})
    valid = f"{url_of(customer)}.csv"
    response = client.get(valid)
    assert read(response).startswith(HEADER)
    assert response.status_code == 200
    assert response["Cache-Control"] == "no-store"
    assert response["Referrer-Policy"] == "no-referrer"
    assert response["X-Robots-Tag"] == "noindex, nofollow"
    assert [client.generic(method, valid).status_code for method in ("HEAD", "POST")] == [405, 405]
    settings.CUSTOMER_PAGES = False
    assert (client.get(valid).status_code, client.get(valid).json()) == (404, {"detail": "Not found."})


# --- Over the wire -----------------------------------------------------------------------------------------------

_OWNER = """
import json
from accounts import customers
from accounts.models import ApiToken
from contrib.customer_page import links
customer = customers.create(name="Example Ltd")
ApiToken.objects.update(customer=customer)
print(json.dumps(links.make(customer=customer, days=1)))
"""


@pytest.mark.slow
def test_unread_downloads_stop_neither_pages_nor_downloads(serve: Callable[..., Service]) -> None:
    service = serve(CUSTOMER_PAGES="true")
    fill_ledger(service)
    link = json.loads(service.manage("shell", "--no-imports", "-c", _OWNER).splitlines()[-1])
    download = request(f"/customer/{link}.csv?month={datetime.now(UTC) - timedelta(days=1):%Y-%m}")
    with ExitStack() as opened:
        for _ in range(PAGE_THREADS + 1):
            unread = opened.enter_context(Connection(service.port))
            assert unread.send(download).read_head()[0] == 200
        other = opened.enter_context(Connection(service.port))
        answer = other.send(download).read()
        assert (answer.status, len(table(answer.body.decode()))) == (200, ROWS + 1)
        assert other.send(request(f"/customer/{link}")).read().status == 200
