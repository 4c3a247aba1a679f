"""The search of the console: what it finds, for whom, and what it must not put into a URL."""

from datetime import date
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from accounts import credits, tokens
from accounts.models import ApiToken, CreditEntry, Customer
from core import numbers
from core.console_search import MAX_SHOWN
from phonebook.admin.number_admin import NUMBER_PAGES
from phonebook.models import ComplaintDay, Contact, NumberRule
from tests import awaited
from tests.console.console_rows import NUMBER
from tests.console.role_table import ROLES, logged_in
from tests.plugin import of_addons

pytestmark = [pytest.mark.django_db, pytest.mark.once]

FIND = reverse("admin:search")
#: Of add-ons, what a search by request id or number finds beside the ledger.
LOGS = of_addons("FOUND_BY_REQUEST")


def find(client: Client, text: str) -> Any:
    return client.post(FIND, {"q": text})


def opened(client: Client, text: str) -> str:
    """The page that opens because it is the only result."""
    response = find(client, text)
    assert response.status_code == 302, response.text
    return str(response["Location"])


def titles(client: Client, text: str) -> dict[str, list[str]]:
    return {group.title: [one.title for one in group.results] for group in find(client, text).context["groups"]}


def change(model: str, *args: Any) -> str:
    return reverse(f"admin:{model}_change", args=args)


@pytest.fixture
def boss() -> Client:
    return logged_in("superuser")


def test_contacts_are_found_by_name(boss: Client, rows: dict[str, Model]) -> None:
    assert opened(boss, "ple Bak") == change("phonebook_contact", rows["phonebook.contact"].pk)
    assert opened(boss, "BAKERY") == change("phonebook_contact", rows["phonebook.contact"].pk)
    assert "Contacts" not in [group.title for group in find(boss, "xa").context["groups"]]


PERSIAN = "\u0639\u0644\u06cc\u200c\u0631\u0636\u0627"


@pytest.mark.parametrize("typed", [PERSIAN, PERSIAN.replace("\u200c", ""), PERSIAN.replace("\u200c", " ")])
def test_name_is_found_without_its_joiner_or_with_a_space(boss: Client, typed: str) -> None:
    """As people type it: alpheios-project/alpheios-core#491, Konash/arabic-support-unity#25."""
    Customer.objects.create(name=PERSIAN)
    tokens.issue(name=PERSIAN, actor="test")
    Contact.objects.create(number=NUMBER, name=PERSIAN)
    assert titles(boss, typed).keys() == {"Customers", "API tokens", "Contacts"}
    for model in "accounts_customer", "accounts_apitoken":
        page: Any = boss.get(reverse(f"admin:{model}_changelist"), {"q": typed})
        assert [row.name for row in page.context["cl"].result_list] == [PERSIAN]


def test_single_result_opens_at_once(boss: Client, rows: dict[str, Model]) -> None:
    token, entry = rows["accounts.apitoken"], rows["accounts.creditentry"]
    assert isinstance(token, ApiToken)
    assert opened(boss, "PBX") == change("accounts_apitoken", token.pk)
    assert opened(boss, f" {token.hint} ") == change("accounts_apitoken", token.pk)
    by_request_id = boss.post(FIND, {"q": "r1", "palette": "1"}).context["groups"]
    assert {group.title: [one.url for one in group.results] for group in by_request_id} == {
        "Ledger": [change("accounts_creditentry", entry.pk)],
        **{title: [change(model.replace(".", "_"), rows[model].pk)] for title, model in LOGS.items()},
    }
    assert opened(boss, "somebody@") == change("auth_user", rows["auth.user"].pk)
    assert opened(boss, "two-factor") == reverse("admin:second_factor")
    assert opened(boss, "geogr") == reverse("admin:monitoring_source_change", args=["geography"])
    customer = change("accounts_customer", rows["accounts.customer"].pk)
    assert (opened(boss, "example LTD"), opened(boss, "owner@")) == (customer, customer)


def test_id_finds_a_customer_and_a_token(boss: Client) -> None:
    token = tokens.issue(name="pbx", initial_credits=0, actor="boss").token
    customer = Customer.objects.create(pk=token.pk, name="Example Ltd")
    found = titles(boss, f"#{token.pk}")
    assert (found["API tokens"], found["Customers"]) == ([str(token)], [str(customer)])


def test_reference_finds_the_top_up(boss: Client) -> None:
    token = tokens.issue(name="pbx", initial_credits=5, actor="boss").token
    entry, _ = credits.top_up(token=token, amount=5, actor="boss", reason="paid", reference="INV-17")
    assert opened(boss, "INV-17") == change("accounts_creditentry", entry.pk)


@pytest.mark.parametrize("typed", ["+49 30 2312-5042", "493023125042", "+49.30.23125042"])
def test_number_is_found_and_in_no_url(boss: Client, rows: dict[str, Model], typed: str) -> None:
    page = find(boss, typed)
    groups = {group.title: group.results for group in page.context["groups"]}
    assert set(groups) == {"Rules", "Contacts", "Complaints", *LOGS}
    urls = [result.url for of_kind in groups.values() for result in of_kind]
    assert not [url for url in urls if "3023125" in url or "2312-5042" in url]
    for url in urls:
        assert boss.get(url).status_code == 200
    title = page.text.partition("<title>")[2].partition("</title>")[0]
    assert f"{len(groups)} results" in title
    assert str(NUMBER) not in title
    assert numbers.formatted(str(NUMBER)) in boss.get(groups["Complaints"][0].url).text


def test_each_role_finds_only_what_it_may_open(rows: dict[str, Model], clients: dict[str, Client]) -> None:
    kinds = {"PBX": "API tokens", "r1": "Ledger", "geography": "Sources", "somebody": "Users"}
    kinds |= {str(NUMBER): "Rules", "Contacts": "Pages", "example ltd": "Customers"}
    may = {
        "staff": set[str](),
        "viewer": {"Customers", "API tokens", "Sources"},
        "billing": {"Customers", "API tokens", "Ledger"},
        "support": {"Customers", "API tokens", "Sources", "Ledger", *LOGS, "Rules"},
        "operator": {"Customers", "API tokens", "Sources", "Ledger", *LOGS, "Rules", "Pages"},
        "auditor": {*kinds.values(), *LOGS},
        "superuser": {*kinds.values(), *LOGS},
    }
    opens = {"Ledger": "creditentry", **{title: model.split(".")[1] for title, model in LOGS.items()}}
    by_text = [*kinds.items(), *(("r1", title) for title in LOGS)]
    for role in ROLES:
        for text, kind in by_text:
            response = find(clients[role], text)
            if response.status_code == 302:
                found = opens.get(kind, "") in response["Location"]
            else:
                found = kind in [group.title for group in response.context["groups"]]
            assert found == (kind in may[role]), (role, kind)
            if response.status_code == 302:
                assert clients[role].get(response["Location"]).status_code == 200
        offered = {title for title, _ in clients[role].get(FIND).context["searchable"]}
        assert offered - {"Contacts", "Complaints", "Pages", "Actions"} == may[role] - {"Pages"}


def test_whole_token_is_refused_and_not_repeated(boss: Client, caplog: pytest.LogCaptureFixture) -> None:
    issued = tokens.issue(name="pbx", initial_credits=0, actor="boss")
    with CaptureQueriesContext(connection) as queries:
        for text in (issued.api_key, f"Bearer {issued.api_key}", issued.api_key + "x" * 3000):
            page = boss.post(FIND, {"q": text})
            assert page.status_code == 200
            assert "This is a whole token, which is secret." in page.text
            assert issued.api_key[-20:] not in page.text
    assert not [query for query in queries if issued.api_key[-20:] in query["sql"]]
    assert issued.api_key[-20:] not in caplog.text


@pytest.mark.parametrize("text", ["", "   ", "x" * 201])
def test_invalid_text_is_explained(boss: Client, text: str) -> None:
    page = boss.post(FIND, {"q": text})
    assert page.status_code == 200
    assert 'id="id_q_error"' in page.text


@pytest.mark.parametrize("query", ["PBX", "493023125042"])
def test_url_searches_and_shows_nothing(boss: Client, rows: dict[str, Model], query: str) -> None:
    page = boss.get(FIND, {"q": query})
    assert (page.status_code, page.context["groups"]) == (200, None)
    assert "493023125042" not in page.text.replace(query, "")


def test_field_does_not_cut_a_pasted_token(boss: Client) -> None:
    """Else it could be searched for, instead of being refused."""
    assert "maxlength" not in str(boss.get(FIND).context["form"]["q"])


def test_token_is_found_by_its_beginning(boss: Client) -> None:
    issued = tokens.issue(name="pbx", initial_credits=0, actor="boss")
    beginning = issued.api_key.rpartition(".")[0]
    response = boss.post(FIND, {"q": beginning}, follow=True)
    assert response.redirect_chain[-1][0] == f"/admin/accounts/apitoken/{issued.token.pk}/change/"


@pytest.mark.parametrize(("text", "hint"), [("eyJhbGci", True), ("no such thing", False)])
def test_common_beginning_of_tokens_is_explained(boss: Client, text: str, hint: bool) -> None:
    tokens.issue(name="pbx", initial_credits=0, actor="boss")
    explanation = "Tokens begin alike"
    assert (explanation in find(boss, text).text) is hint
    for page in ("apitoken", "customer"):
        assert (explanation in boss.get(f"/admin/accounts/{page}/", {"q": text}, follow=True).text) is hint


def test_nothing_found(boss: Client) -> None:
    page = find(boss, "no such thing")
    assert "No results" in page.text
    assert page.context["total"] == 0


def test_many_results_are_cut(boss: Client) -> None:
    for n in range(MAX_SHOWN + 1):
        tokens.issue(name=f"shop {n}", initial_credits=0, actor="boss")
        User.objects.create_user(f"shop{n}")
    page = find(boss, "shop")
    groups = {group.title: group for group in page.context["groups"]}
    assert {title: (len(group.results), group.has_more) for title, group in groups.items()} == {
        "API tokens": (10, True),
        "Users": (10, True),
    }
    assert "Only the first 10 are shown" in page.text


def test_timeout_of_one_kind_leaves_the_others(
    boss: Client, rows: dict[str, Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    def timed_out(*args: object, **kwargs: object) -> None:
        raise OperationalError("canceling statement due to statement timeout")

    monkeypatch.setattr(NumberRule.objects, "filter", timed_out)
    page = find(boss, str(NUMBER))
    assert "The database timed out. Enter more characters." in page.text
    assert [len(group.results) for group in page.context["groups"]] == [*(1 for _ in LOGS), 0, 1, 1]


def test_number_of_queries_does_not_grow(boss: Client) -> None:
    counts = set()
    for more in (2, 5, 20):
        for n in range(more):
            token = tokens.issue(name=f"shop {more} {n}", initial_credits=9, actor="boss").token
            awaited.charge(token=token, request_id="shop", number=str(NUMBER), answer={})
        with CaptureQueriesContext(connection) as queries:
            assert find(boss, "shop").status_code == 200
        counts.add(len(queries))
    assert len(counts) == 1
    # With the savepoint of a list with a longer statement timeout: two, and on PostgreSQL the timeout itself.
    assert max(counts) <= 24
    assert CreditEntry.objects.filter(request_id="shop").count() == 27


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("2fa", "Two-factor authentication"),
        ("two factor", "Two-factor authentication"),
        ("top up", "Top up tokens"),
        ("price", "Top up tokens"),
        ("blacklist", "Add a rule"),
        ("add user", "Invite a user"),
        ("ISSUE token", "Issue an API token"),
        ("export csv", "Export the ledger"),
        ("stolen token", "Rotate a token"),
        ("leaked", "Rotate a token"),
        ("compromised key", "Rotate a token"),
    ],
)
def test_action_is_found_by_what_people_call_it(boss: Client, text: str, action: str) -> None:
    groups = boss.post(FIND, {"q": text, "palette": "1"}).context["groups"]
    assert action in [one.title for group in groups if group.title == "Actions" for one in group.results]


@pytest.mark.parametrize(("words", "name"), of_addons("FOUND_BY_WORDS").items())
def test_page_is_found_by_what_it_is_for(boss: Client, words: str, name: str) -> None:
    url = reverse(f"admin:{name}")
    assert boss.post(FIND, {"q": words, "palette": "1"}).text.count(url) == 1
    assert url not in logged_in("auditor").post(FIND, {"q": words, "palette": "1"}).text


def test_customer_has_its_tokens_under_it_once(boss: Client) -> None:
    customer = Customer.objects.create(name="Harbour")
    for name in ("Harbour", "Harbour", "fax", "tills", "Harbour cellar"):
        tokens.issue(name=name, initial_credits=0, actor="boss", customer=customer)
    groups = {group.title: group.results for group in find(boss, "harbour").context["groups"]}
    (found,) = groups["Customers"]
    assert [one.title.partition(" (#")[0] for one in found.under] == ["Harbour cellar", "Harbour", "Harbour"]
    assert {one.title.partition(" (#")[0] for one in groups["API tokens"]} == {"fax", "tills"}
    (found,) = {group.title: group.results for group in find(boss, "fa").context["groups"]}["Customers"]
    assert found.under[0].title.startswith("fax (#")


def test_what_is_called_as_the_text_comes_first(boss: Client) -> None:
    customer = Customer.objects.create(name="Shop Ltd")
    for name in ("shop phone", "shop", "shop phone 2"):
        tokens.issue(name=name, initial_credits=0, actor="boss", customer=customer)
    groups = find(boss, "Shop Phone").context["groups"]
    assert [group.title for group in groups] == ["API tokens", "Customers"]
    assert [result.title.partition(" (#")[0] for result in groups[0].results] == ["shop phone"]
    assert "shop phone" not in [one.title.partition(" (#")[0] for one in groups[1].results[0].under]
    assert [group.title for group in find(boss, "shop ltd").context["groups"]] == ["Customers"]


def test_action_on_a_named_row_is_found(boss: Client) -> None:
    token = tokens.issue(name="Harbour phone", initial_credits=0, actor="boss").token
    revoked = tokens.issue(name="Harbour fax", initial_credits=0, actor="boss").token
    tokens.revoke(token=revoked)
    assert opened(boss, "top up harbour") == reverse("admin:accounts_apitoken_top_up", args=[token.pk])
    assert opened(boss, "stolen harbour") == reverse("admin:accounts_apitoken_rotate", args=[token.pk])
    assert opened(boss, "pause geogr") == reverse("admin:monitoring_source_pause", args=["geography"])
    for url in (opened(boss, "top up harbour"), opened(boss, "pause geogr")):
        assert boss.get(url).status_code == 200
    assert find(logged_in("viewer"), "pause geogr").context["groups"] == []


def test_actions_on_tokens_of_one_name_are_told_apart(boss: Client) -> None:
    made = []
    for name in ("Alder Ltd", "Alder GmbH"):
        customer = Customer.objects.create(name=name)
        made.append(tokens.issue(name="Alder Hotline", initial_credits=1, actor="boss", customer=customer).token)
    (group,) = find(boss, "revoke alder hotline").context["groups"]
    details = {f"Revoke a token: {token}": f"{token.hint}, active, 1 credit, {token.customer}" for token in made}
    assert {result.title: result.detail for result in group.results} == details


@pytest.mark.skipif(not of_addons("FOUND_BY_REQUEST"), reason="no add-on with a page for a number is chosen")
def test_palette_offers_pages_for_a_number(boss: Client) -> None:
    text = boss.post(FIND, {"q": str(NUMBER), "palette": "1"}).text
    assert f'data-status="{len(NUMBER_PAGES)} results"' in text
    assert 'name="number" value="+49 30 23125042"' in text
    for title, (_, url) in NUMBER_PAGES.items():
        assert f'formaction="{reverse(url)}">{title}</button>' in text
    ComplaintDay.objects.create(number=NUMBER, source="x", day=date(2026, 1, 1), total=1)
    text = boss.post(FIND, {"q": str(NUMBER), "palette": "1"}).text
    assert all(text.index(title) < text.index("Complaints about") for title in NUMBER_PAGES)
    assert "this number" not in logged_in("viewer").post(FIND, {"q": str(NUMBER), "palette": "1"}).text


def test_palette_gets_options_and_is_not_redirected(boss: Client, rows: dict[str, Model]) -> None:
    response = boss.post(FIND, {"q": "PBX", "palette": "1"})
    assert response.status_code == 200
    assert 'data-status="1 result"' in response.text
    assert response.text.count('role="option"') == 1
    assert "<html" not in response.text


def test_names_of_contacts_are_searched_on_the_page_only(boss: Client, rows: dict[str, Model]) -> None:
    Contact.objects.create(number=12125550187, name="Quillfeather Bakery")
    assert "Quillfeather" in boss.post(FIND, {"q": "quillf"}, follow=True).text
    assert "Quillfeather" not in boss.post(FIND, {"q": "quillf", "palette": "1"}).text


def test_palette_refuses_a_whole_token_and_does_not_repeat_it(boss: Client) -> None:
    issued = tokens.issue(name="pbx", initial_credits=0, actor="boss")
    response = boss.post(FIND, {"q": issued.api_key, "palette": "1"})
    assert "This is a whole token, which is secret." in response.text
    assert "data-refused" in response.text
    assert issued.api_key[-20:] not in response.text


def test_every_page_has_the_button_and_not_unfolds_palette(boss: Client, rows: dict[str, Model]) -> None:
    for page in (reverse("admin:index"), reverse("admin:accounts_apitoken_changelist"), FIND):
        text = boss.get(page).text
        assert f'href="{FIND}"' in text
        assert 'id="palette"' in text
        assert "search-input-command" not in text
