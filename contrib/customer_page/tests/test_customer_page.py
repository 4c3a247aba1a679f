"""A customer's own page: by a signed link only, and without anything that others may not see."""

import logging
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.core import signing
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts import credits, customers, tokens
from accounts.models import ApiToken, Customer, TokenDay
from contrib.customer_page import links
from tests import awaited
from tests.accounts.admin.pages import issue_token, submit
from tests.asgi import call

pytestmark = pytest.mark.django_db

NUMBER = "493023125042"
HTML = {"Accept": "text/html,*/*;q=0.8"}


@pytest.fixture(autouse=True)
def _pages_on(settings: Any) -> None:
    settings.CUSTOMER_PAGES = True


@pytest.fixture
def customer() -> Customer:
    return customers.create(name="Example Ltd", note="pays late", contacts=["owner@example.org"])


def token_of(customer: Customer, name: str = "till", initial_credits: int = 30, **options: Any) -> ApiToken:
    given = {"note": "their second", "reason": "invoice 7", "contact": "till@example.org", **options}
    if given.get("is_test"):
        del given["contact"]
    return tokens.issue(name=name, initial_credits=initial_credits, actor="boss", customer=customer, **given).token


def url_of(customer: Customer, days: int = 7) -> str:
    customer.refresh_from_db()
    return f"/customer/{links.make(customer=customer, days=days)}"


def test_page_shows_what_the_owner_of_the_tokens_may_know(client: Client, customer: Customer) -> None:
    token, trial = token_of(customer, initial_credits=1_030), token_of(customer, "trial", 0, is_test=True)
    tokens.revoke(token=token_of(customer, "gone", 5, rate_limit=1_200), reason="unpaid bill")
    issue_token("of a stranger")
    for n in range(25):
        awaited.charge(token=token, request_id=f"request-{n}", number=NUMBER, answer={})
    TokenDay.objects.create(token=token, day=timezone.now().date(), outcome="found_one", count=25)
    response = client.get(url_of(customer), headers=HTML)
    text = response.text
    assert response.status_code == 200
    shown = (
        "Example Ltd",
        "1,005",
        "till",
        token.hint,
        "30 requests in 60 seconds",
        "1,200 requests in 60 seconds",
        "trial",
        "never charged",
        "gone",
        "revoked",
    )
    assert text.count("<dt>Runs out</dt>") == 2  # not of the revoked one
    for expected in (
        *shown,
        f"{trial.expires_at:%Y-%m-%d} (expires)",
        "request-24",
        "request-5",
        f"{token.expires_at:%Y-%m-%d}",
    ):
        assert expected in text, expected
    hidden = ("request-4<", "pays late", "their second", "invoice 7", "@example.org", "boss", "unpaid", "stranger")
    for secret in (*hidden, token.jti):
        assert secret not in text, secret
    assert NUMBER not in text.replace(f'"query": "{NUMBER}"', "")
    assert response.context["days"][-1]["count"] == 25
    assert response.context["days"][-1]["height"] == 100


def test_chart_says_how_many_its_bars_stand_for(client: Client, customer: Customer) -> None:
    url, today = url_of(customer), timezone.now().date()
    assert "<p>0 in total</p>" in client.get(url).text
    token, stranger = token_of(customer), issue_token("of a stranger")
    for whose, age, outcome, count in (
        (token, 0, "found_one", 1_200),
        (token, 0, "replayed", 34),
        (token, 29, "found_none", 7),
        (token, 30, "found_none", 5_000),
        (token, 1, "rate_limited", 5_000),
        (stranger, 0, "found_one", 5_000),
    ):
        TokenDay.objects.create(token=whose, day=today - timedelta(days=age), outcome=outcome, count=count)
    response = client.get(url)
    assert "<p>1,241 in total, at most 1,234 in a day</p>" in response.text
    days = response.context["days"]
    assert [(days[n]["count"], days[n]["height"]) for n in (0, 1, 28, 29)] == [(7, 1), (0, 0), (0, 0), (1234, 100)]
    for day in (f"{today}", f"{today - timedelta(days=29)}"):
        assert f'<th scope="row">{day}</th>' in response.text


def test_rotated_token_is_active_and_the_previous_one_too(client: Client, customer: Customer) -> None:
    tokens.rotate(token=token_of(customer), grace=timedelta(hours=1))
    text = client.get(url_of(customer)).text
    assert '<span class="state">active</span>' in text
    assert "The previous token works until" in text


@pytest.mark.parametrize(
    ("charged", "rule"), [(True, "even if nothing is found."), (False, "unless there is no match.")]
)
def test_page_says_when_a_search_costs_a_credit(
    client: Client, customer: Customer, settings: Any, charged: bool, rule: str
) -> None:
    settings.CHARGE_EMPTY = charged
    awaited.charge(token=token_of(customer), request_id="r1", number=NUMBER, answer={})
    assert f"An answered search costs one credit, {rule}" in client.get(url_of(customer)).text


def test_refunded_charge_says_so(client: Client, customer: Customer) -> None:
    token = token_of(customer)
    for request_id in ("kept", "returned"):
        awaited.charge(token=token, request_id=request_id, number=NUMBER, answer={})
    credits.refund(entry=token.entries.get(request_id="returned"), actor="op", reason="wrong number")
    charges = re.findall(r"<code>(kept|returned)</code>(.*?)</tr>", client.get(url_of(customer)).text)
    assert [(request_id, "refunded" in rest) for request_id, rest in charges] == [("returned", True), ("kept", False)]


def test_page_is_private_and_sets_no_cookie(client: Client, customer: Customer) -> None:
    for url, status in ((url_of(customer), 200), ("/customer/guess", 404)):
        response = client.get(url, headers=HTML)
        assert response.status_code == status
        assert not response.cookies
        assert response["Cache-Control"] == "no-store"
        assert response["Referrer-Policy"] == "no-referrer"
        assert response["X-Robots-Tag"] == "noindex, nofollow"
        policy = dict(part.strip().split(" ", 1) for part in response["Content-Security-Policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert {name for name, value in policy.items() if value == "'self'"} == {"style-src", "img-src"}


def test_link_is_not_logged(client: Client, customer: Customer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for url in (url_of(customer), "/customer/guess:guess", f"{url_of(customer)}.json"):
        client.get(url)
        assert url.rpartition("/")[2].removesuffix(".json") not in caplog.text
    assert "view=customer " in caplog.text
    assert "view=customer-json" in caplog.text


def test_only_get_is_allowed_and_other_errors_are_json(client: Client, customer: Customer, settings: Any) -> None:
    url = url_of(customer)
    assert client.head(url).status_code == 200
    assert client.get(f"{url}/").status_code == 200
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert "detail" in client.generic(method, url, headers=HTML).json()
    assert client.get("/customer/").json() == {"detail": "Not found."}
    settings.CUSTOMER_PAGES = False
    response = client.get(url, headers=HTML)
    assert (response.status_code, response.json()) == (404, {"detail": "Not found."})


def test_link_that_was_not_signed_here_is_not_valid(client: Client, customer: Customer) -> None:
    link = url_of(customer).rpartition("/")[2]
    payload, _, signature = link.partition(":")
    other = signing.Signer(salt="another").sign_object([customer.pk, 1, 10**10])
    for forged in (link[:-1], f"{payload}x:{signature}", payload, f"{payload}:", other, "x" * 5000, ":", "a:b:c"):
        response = client.get(f"/customer/{forged}", headers=HTML)
        assert (response.status_code, "This link is not valid" in response.text) == (404, True), forged
    response = client.get("/customer/guess")
    assert (response.status_code, response.json()) == (404, {"detail": "This link is not valid"})


def test_link_ends_when_it_expires(client: Client, customer: Customer, monkeypatch: pytest.MonkeyPatch) -> None:
    url, made = url_of(customer, days=2), datetime.now(UTC)
    for days, status in ((1.99, 200), (2.01, 410)):
        moment = made + timedelta(days=days)
        monkeypatch.setattr(timezone, "now", lambda moment=moment: moment)
        response = client.get(url, headers=HTML)
        assert response.status_code == status
    assert "This link has expired or was revoked" in response.text
    assert client.get(url).json() == {"detail": "This link has expired or was revoked"}


def test_revocation_ends_all_links_of_the_customer_only(client: Client, customer: Customer) -> None:
    other = customers.create(name="Other Ltd")
    first, second, of_other = url_of(customer), url_of(customer, 90), url_of(other)
    links.revoke(customer=customer)
    assert [client.get(url).status_code for url in (first, second, of_other)] == [410, 410, 200]
    assert client.get(url_of(customer)).status_code == 200
    other.delete()
    assert client.get(of_other).status_code == 410


def test_links_of_earlier_versions_stay_valid(client: Client, customer: Customer) -> None:
    """Links that customers have must not depend on where the module that signs them is."""
    link = signing.Signer(salt="accounts.customer_links").sign_object([customer.pk, 1, 10**10])
    assert client.get(f"/customer/{link}").status_code == 200


def test_body_is_refused_before_it_is_read(customer: Customer) -> None:
    url = url_of(customer)
    assert call(url, b"", Content_Type="multipart/form-data; boundary=b").status == 415
    assert call(url, b" " * (16 * 1024 + 1), Content_Type="application/x-www-form-urlencoded").status == 413


@pytest.mark.parametrize("days", [0, 91, -1])
def test_link_has_a_bounded_lifetime(customer: Customer, days: int) -> None:
    with pytest.raises(ValueError, match="1 to 90 days"):
        links.make(customer=customer, days=days)


def test_guesses_are_limited_and_valid_links_are_not(client: Client, customer: Customer, settings: Any) -> None:
    settings.AUTH_FAILURE_RATE = (2, 60)
    statuses = [client.get("/customer/guess").status_code for _ in range(3)]
    assert statuses == [404, 404, 429]
    response = client.get("/customer/guess", headers=HTML)
    assert response.json() == {"detail": "Rate limit exceeded"}
    assert int(response["Retry-After"]) >= 1
    assert client.get(url_of(customer)).status_code == 200


def test_number_of_statements_is_constant(client: Client, customer: Customer) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert client.get(url_of(customer)).status_code == 200
        return len(captured)

    awaited.charge(token=token_of(customer), request_id="r", number=NUMBER, answer={})
    few = statements()
    for n in range(60):
        awaited.charge(token=token_of(customer, f"till {n}"), request_id="r", number=NUMBER, answer={})
    assert statements() == few
    assert "And 11 more." in client.get(url_of(customer)).text


# --- As JSON --------------------------------------------------------------------------------------------------------


def test_json_has_all_tokens_the_balance_and_the_days(client: Client, customer: Customer) -> None:
    gone, _ = token_of(customer, "gone", 5), token_of(customer, "trial", 0, is_test=True)
    till, stranger = token_of(customer), issue_token("of a stranger")
    for n in range(60):
        token_of(customer, f"desk {n}", 1)
    tokens.revoke(token=gone, reason="unpaid bill")
    tokens.rotate(token=till, grace=timedelta(hours=1))
    for token, count in ((till, 7), (gone, 2), (stranger, 100)):
        TokenDay.objects.create(token=token, day=timezone.now().date(), outcome="found_one", count=count)
    response = client.get(f"{url_of(customer)}.json", headers=HTML)
    assert (response.status_code, response["Content-Type"]) == (200, "application/json")
    figures = response.json()
    till.refresh_from_db()
    shown = {token.pop("name"): token for token in figures["tokens"]}
    assert list(shown) == [*(f"desk {n}" for n in reversed(range(60))), "till", "trial", "gone"]
    assert shown["till"] == {
        "last_four": till.last_four,
        "test": False,
        "state": "active",
        "credits": 30,
        "expires_at": f"{till.expires_at:%Y-%m-%dT%H:%M:%SZ}",
    }
    assert [(shown[name]["test"], shown[name]["state"]) for name in ("trial", "gone")] == [
        (True, "active"),
        (False, "revoked"),
    ]
    assert set(figures) == {"customer", "time", "balance", "tokens", "days"}
    assert (figures["customer"], figures["balance"], len(figures["days"])) == ("Example Ltd", 90, 30)
    assert figures["days"][-1] == {"day": f"{timezone.now():%Y-%m-%d}", "searches": 9}
    for secret in ("pays late", "their second", "invoice 7", "@example.org", "boss", "unpaid", "stranger", till.jti):
        assert secret not in response.text, secret


def test_page_links_to_its_figures_as_json(client: Client, customer: Customer) -> None:
    url = url_of(customer)
    assert f'href="{url}.json"' in client.get(f"{url}/").text


def test_json_is_limited_and_private_as_the_page_is(client: Client, customer: Customer, settings: Any) -> None:
    settings.AUTH_FAILURE_RATE = (2, 60)
    url = f"{url_of(customer)}.json"
    links.revoke(customer=customer)
    for path, status, detail in (
        (url, 410, "This link has expired or was revoked"),
        ("/customer/guess.json", 404, "This link is not valid"),
        ("/customer/guess.json", 429, "Rate limit exceeded"),
        ("/customer/guess", 429, "Rate limit exceeded"),
    ):
        response = client.get(path, headers=HTML)
        assert (response.status_code, response.json()) == (status, {"detail": detail})
    valid = f"{url_of(customer)}.json"
    response = client.get(valid)
    assert response.status_code == 200
    assert response["Cache-Control"] == "no-store"
    assert response["Referrer-Policy"] == "no-referrer"
    assert response["X-Robots-Tag"] == "noindex, nofollow"
    assert not response.cookies
    assert client.post(valid).status_code == 405
    settings.CUSTOMER_PAGES = False
    assert (client.get(valid).status_code, client.get(valid).json()) == (404, {"detail": "Not found."})


# --- In the console ------------------------------------------------------------------------------------------------


def test_operator_makes_a_link_that_is_shown_once(admin_client: Client, client: Client, customer: Customer) -> None:
    console = f"/admin/accounts/customer/{customer.pk}"
    response = submit(admin_client, f"{console}/link/", days=3)
    [url] = re.findall(r'<pre id="customer_link"[^>]*>(.*?)</pre>', response.text)
    link = url.removeprefix("http://testserver")
    assert client.get(link).status_code == 200
    assert link not in admin_client.get(f"{console}/change/").text
    assert link not in "".join(LogEntry.objects.values_list("change_message", flat=True))
    assert submit(admin_client, f"{console}/revoke-links/").status_code == 302
    assert client.get(link).status_code == 410
    assert list(LogEntry.objects.order_by("pk").values_list("change_message", flat=True)) == [
        "Made a link to the customer's page, valid for 3 days.",
        "Revoked all links to the customer's page.",
    ]


def test_link_has_the_public_address_of_the_service(admin_client: Client, customer: Customer, settings: Any) -> None:
    for public, shown in (("", "http://testserver"), ("https://callerid.example.org",) * 2):
        settings.PUBLIC_URL = public
        response = submit(admin_client, f"/admin/accounts/customer/{customer.pk}/link/", days=3)
        assert f">{shown}/customer/" in response.text


def test_console_says_that_links_need_a_setting(admin_client: Client, customer: Customer, settings: Any) -> None:
    settings.CUSTOMER_PAGES = False
    console = f"/admin/accounts/customer/{customer.pk}"
    page = admin_client.get(f"{console}/change/").text
    assert f"{console}/link/" in page
    assert f"{console}/revoke-links/" not in page
    for response in (admin_client.get(f"{console}/link/"), admin_client.post(f"{console}/link/", {"days": "3"})):
        assert "set CUSTOMER_PAGES=true" in response.text
    assert not LogEntry.objects.exists()
