"""The pages of files that are looked up. (tests/console/role_table.py says for whom, tests/lookup/test_file_lookups.py
what the process does.)"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.db import transaction
from django.test import Client
from django.utils import timezone

from accounts import tokens
from accounts.models import ApiToken
from core import background_process
from lookup import file_lookups
from lookup.models import FileLookup, FileLookupRow
from phonebook.imports import uploads
from phonebook.models import ImportUpload
from tests.console_pages import words

pytestmark = pytest.mark.django_db

LIST = "/admin/lookup/filelookup/"
FORM = f"{LIST}upload/"
CSV = b"caller,called\n12125550100,1\n=1,2\n12125550101,3\n12125550100,4\n"


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The processes that were started: none is."""
    found: list[tuple[str, ...]] = []
    monkeypatch.setattr(background_process, "start", lambda *arguments: found.append(arguments))
    monkeypatch.setattr(transaction, "on_commit", lambda call: call())
    return found


@pytest.fixture
def operator() -> Client:
    user = User.objects.create_user("olga", is_staff=True)
    user.groups.add(Group.objects.get(name="operator"))
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def token() -> ApiToken:
    return tokens.issue(name="Shop (main)", initial_credits=1_500, rate_limit=1, actor="boss").token


def begin(client: Client, token: object, **fields: Any) -> Any:
    data = {"file_name": "numbers.csv", "size": len(CSV), "token": str(token), "column": "caller", **fields}
    return client.post(FORM, data)


@pytest.fixture
def lookup(operator: Client, token: ApiToken) -> FileLookup:
    url = begin(operator, token).json()["part"]
    operator.post(f"{url}&offset=0", CSV, content_type="application/octet-stream")
    call_command("process_import", str(ImportUpload.objects.get().pk))
    return FileLookup.objects.get()


def step(client: Client, lookup: FileLookup, name: str) -> Any:
    return client.post(f"{LIST}{lookup.pk}/{name}/", follow=True)


def test_page_says_what_it_would_cost(operator: Client, lookup: FileLookup) -> None:
    assert not ImportUpload.objects.exists()
    assert operator.get(FORM)["Location"] == f"{LIST}{lookup.pk}/change/"  # first it is started or discarded
    page = words(operator.get(f"{LIST}{lookup.pk}/change/").text)
    cost = f"2 credits at most; {lookup.token} has 1,500. At 1 requests in 60 s: 0:01:00 at least."
    assert f"2 different numbers. {cost}" in page
    assert "1 invalid, 3 pending" in page
    assert "Line 3: invalid phone number (must contain only digits)" in page
    assert "12125550100" not in page


@pytest.mark.parametrize(
    ("choose", "says"),
    [
        (lambda token: token.name, "API token: Choose a token from the list that opens as you type."),
        (lambda token: "#999", "API token: Choose a token from the list that opens as you type."),
        (lambda token: "", "API token: This field is required."),
        (lambda token: tokens.revoke(token=token) and token, "API token: This token is revoked. Choose another one."),
    ],
)
def test_refused_token(operator: Client, token: ApiToken, choose: Callable[..., object], says: str) -> None:
    response = begin(operator, choose(token))
    assert (response.status_code, response.json()) == (400, {"errors": [says]})


@pytest.mark.parametrize("choose", [str, lambda token: f"#{token.pk}", lambda token: f" {token.pk} "])
def test_token_by_name_or_id(operator: Client, token: ApiToken, choose: Callable[..., str]) -> None:
    assert begin(operator, choose(token)).status_code == 200
    assert ImportUpload.objects.get().options == {"token": token.pk, "column": "caller"}


def test_form_suggests_tokens(operator: Client, token: ApiToken) -> None:
    assert 'aria-label="API tokens"' in operator.get(FORM).text
    query = {"app_label": "lookup", "model_name": "filelookup", "field_name": "token", "term": "shop"}
    assert operator.get("/admin/autocomplete/", query).json()["results"] == [{"id": str(token.pk), "text": str(token)}]


def test_steps_are_offered_and_refused_by_state(operator: Client, lookup: FileLookup, started: Any) -> None:
    started.clear()
    assert "The search has started." in step(operator, lookup, "start").text
    lookup.refresh_from_db()
    assert (lookup.state, lookup.url, lookup.host) == ("running", "http://testserver:80", "testserver")
    assert started == [("process_lookup", str(lookup.pk), lookup.run)]
    assert "It runs already" in step(operator, lookup, "start").text
    assert "stop it first" in step(operator, lookup, "discard").text
    page = operator.get(f"{LIST}{lookup.pk}/change/").text
    assert f'data-url="{LIST}{lookup.pk}/progress/"' in page
    assert "0 of 3 rows are answered." in page
    assert "The search ends within seconds." in step(operator, lookup, "stop").text
    assert "It does not run." in step(operator, lookup, "stop").text
    assert operator.get(f"{LIST}{lookup.pk}/progress/").json()["state"] == "Stopped"
    assert "The file and its answers were deleted." in step(operator, lookup, "discard").text
    assert not FileLookupRow.objects.exists()
    history = " ".join(LogEntry.objects.values_list("change_message", flat=True))
    assert f"Started at the expense of token {lookup.token_id}: 1 invalid, 3 pending." in history
    assert "numbers.csv" not in history


def test_download_has_the_rows_in_order(operator: Client, lookup: FileLookup) -> None:
    result = {"searched_number": "12125550100", "outcome": "found", "name_a": "=1+1", "spam_b": "true"}
    lookup.rows.filter(number=12125550100).update(outcome="found", result=result)
    response = step(operator, lookup, "download")
    assert b"".join(response).decode().splitlines() == [
        "caller,called,searched_number,outcome,name_a,location_a,name_b,spam_b",
        "12125550100,1,12125550100,found,'=1+1,,,true",
        "=1,2,,invalid,,,,",
        "12125550101,3,12125550101,pending,,,,",
        "12125550100,4,12125550100,found,'=1+1,,,true",
    ]


def test_killed_process_is_shown_as_stopped(operator: Client, lookup: FileLookup) -> None:
    FileLookup.objects.update(state="running", seen_at=timezone.now() - uploads.HEARTBEAT_TIMEOUT * 2)
    assert "Interrupted." in operator.get(f"{LIST}{lookup.pk}/change/").text


def test_prune_deletes_files_after_a_week(lookup: FileLookup) -> None:
    FileLookup.objects.update(seen_at=timezone.now() - file_lookups.KEPT + timedelta(minutes=1))
    assert file_lookups.prune() == 0
    FileLookup.objects.update(seen_at=timezone.now() - file_lookups.KEPT)
    assert file_lookups.prune() == 1
    assert not FileLookupRow.objects.exists()


def test_file_with_too_many_rows_is_refused(operator: Client, token: ApiToken, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_lookups, "MAX_ROWS", 3)
    url = begin(operator, token).json()["part"]
    operator.post(f"{url}&offset=0", CSV, content_type="application/octet-stream")
    with pytest.raises(Exception, match="Upload"):
        call_command("process_import", str(ImportUpload.objects.get().pk))
    assert "more than 3 rows" in operator.get(FORM).text
    assert not FileLookup.objects.exists()
