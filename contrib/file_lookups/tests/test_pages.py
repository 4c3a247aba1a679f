"""The pages of files that are looked up. (`ROLE_TABLE` says for whom, test_process.py what the process does.)"""

import csv
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import jwt
import msgspec
import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.models import Count
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts import tokens
from accounts.models import ApiToken, CreditEntry, Customer
from console.erasure import erase
from contrib.file_lookups import client as retrying_client
from contrib.file_lookups import process as lookup_process
from contrib.file_lookups import services
from contrib.file_lookups.models import FileLookup, FileLookupRow
from contrib.file_lookups.number_file import COLUMNS, result_of
from contrib.uploads import background_process, uploads
from contrib.uploads.models import ImportUpload
from core import api_client, csv_cells, http
from tests.console_pages import words

pytestmark = pytest.mark.django_db

LIST = "/admin/file_lookups/filelookup/"
FORM = f"{LIST}upload/"
CSV = b"caller,called\n12125550100,1\n=1,2\n12125550101,3\n12125550100,4\n"


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The processes that were started: none is."""
    found: list[tuple[str, ...]] = []
    monkeypatch.setattr(background_process, "start", lambda *arguments: found.append(arguments))
    monkeypatch.setattr(uploads, "run_waiting", lambda: None)
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


def begin(client: Client) -> Any:
    return client.post(FORM, {"file_name": "numbers.csv", "size": len(CSV), "column": "caller"})


@pytest.fixture
def lookup(operator: Client) -> FileLookup:
    url = begin(operator).json()["part"]
    operator.post(f"{url}&offset=0", CSV, content_type="application/octet-stream")
    call_command("process_import", str(ImportUpload.objects.get().pk))
    return FileLookup.objects.get()


def step(client: Client, lookup: FileLookup, name: str, **data: Any) -> Any:
    return client.post(f"{LIST}{lookup.pk}/{name}/", data, follow=True)


def test_page_says_what_it_would_cost(operator: Client, lookup: FileLookup) -> None:
    assert not ImportUpload.objects.exists()
    page = words(operator.get(FORM, follow=True).text)  # opens the file: first it is started or discarded
    assert "This file is ready. Start the search, or discard the file" in page
    assert "2 different numbers: 2 credits at most" in page
    assert "2 different numbers cost at most 2 credits." in operator.get(f"{LIST}{lookup.pk}/start/").text
    assert "3 pending, 1 invalid" in page
    assert "Line 3: invalid phone number (must have 7 to 15 digits)" in page
    assert "12125550100" not in page


@pytest.mark.parametrize(
    ("choose", "says"),
    [
        (lambda token: token.name, "Choose a token from the list that opens as you type."),
        (lambda token: "#999", "Choose a token from the list that opens as you type."),
        (lambda token: "", "This field is required."),
        (lambda token: tokens.revoke(token=token) and token, "This token is revoked. Choose another one."),
    ],
)
def test_refused_token(
    operator: Client, token: ApiToken, lookup: FileLookup, choose: Callable[..., object], says: str
) -> None:
    assert says in step(operator, lookup, "start", token=choose(token)).text
    lookup.refresh_from_db()
    assert lookup.state == "ready"


def test_token_with_too_few_credits_starts_only_on_request(
    operator: Client, token: ApiToken, lookup: FileLookup
) -> None:
    ApiToken.objects.update(credits=1)
    says = f"{token} has 1 credit, and 2 may be needed. Top up the token, or choose another one."
    assert says in words(step(operator, lookup, "start", token=token).text)
    ApiToken.objects.update(credits=0)
    assert "has 0 credits, and 2 may be needed" in words(step(operator, lookup, "start", token=token, partly="on").text)
    ApiToken.objects.update(credits=1)
    assert "The search has started." in step(operator, lookup, "start", token=token, partly="on").text
    lookup.refresh_from_db()
    assert lookup.token == token


@pytest.mark.parametrize(
    ("search_url", "url"),
    [("", "http://testserver:80"), ("http://10.0.0.7:8001", "http://10.0.0.7:8001")],
)
def test_searches_go_to_an_instance_that_answers_them(
    operator: Client, token: ApiToken, lookup: FileLookup, settings: Any, search_url: str, url: str
) -> None:
    settings.SEARCH_URL = search_url
    step(operator, lookup, "start", token=token)
    lookup.refresh_from_db()
    assert (lookup.state, lookup.url) == ("running", url)


@pytest.mark.parametrize("choose", [str, lambda token: f"#{token.pk}", lambda token: f" {token.pk} "])
def test_token_by_name_or_id(operator: Client, token: ApiToken, lookup: FileLookup, choose: Callable[..., str]) -> None:
    page = words(step(operator, lookup, "start", token=choose(token)).text)
    assert "The search has started. At 1 request in 60 s it takes at least 1 minute." in page


def test_form_suggests_usable_tokens_by_name_or_customer(operator: Client, token: ApiToken, lookup: FileLookup) -> None:
    assert 'aria-label="API tokens"' in operator.get(f"{LIST}{lookup.pk}/start/").text
    of_customer = tokens.issue(name="Desk", customer=Customer.objects.create(name="Shoppers"), actor="boss").token
    tokens.revoke(token=tokens.issue(name="Shop (old)", actor="boss").token)
    query = {"app_label": "file_lookups", "model_name": "filelookup", "field_name": "token", "term": "shop"}
    assert operator.get("/admin/autocomplete/", query).json()["results"] == [
        {
            "id": str(of_customer.pk),
            "text": str(of_customer),
            "detail": f"{of_customer.hint}, out of credits, 0 credits, {of_customer.customer}",
        },
        {"id": str(token.pk), "text": str(token), "detail": f"{token.hint}, active, 1,500 credits"},
    ]
    whole = tokens.rotate(token=token).api_key
    assert operator.get("/admin/autocomplete/", {**query, "term": whole}).json()["results"] == []


def test_page_says_what_was_charged(operator: Client, token: ApiToken, lookup: FileLookup) -> None:
    FileLookup.objects.update(token=token, state="done")
    spend = partial(CreditEntry.objects.create, token=token, kind="search", amount=-1, balance_after=9)
    for request_id in (lookup.request_id, lookup.request_id, "another"):
        spend(request_id=request_id)
    refunded = spend(request_id=lookup.request_id)
    CreditEntry.objects.create(token=token, kind="refund", amount=1, balance_after=9, refunds=refunded)
    page = words(operator.get(f"{LIST}{lookup.pk}/change/").text)
    assert f"2 credits (request id look-up-{lookup.pk} )" in page
    assert "To be searched" not in page


def test_steps_are_offered_and_refused_by_state(
    operator: Client, token: ApiToken, lookup: FileLookup, started: Any
) -> None:
    started.clear()
    assert "The search has started." in step(operator, lookup, "start", token=token).text
    lookup.refresh_from_db()
    assert (lookup.state, lookup.url, lookup.host) == ("running", "http://testserver:80", "testserver")
    assert started == [("process_lookup", str(lookup.pk), lookup.run)]
    assert "It runs already" in step(operator, lookup, "start", token=token).text
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
    assert f"Started at the expense of token {lookup.token_id}: 3 pending, 1 invalid." in history
    assert "numbers.csv" not in history
    (of_token,) = LogEntry.objects.filter(content_type__model="apitoken", object_id=str(lookup.token_id))
    assert of_token.change_message == f"Started file look-up {lookup.pk} at its expense: 3 pending, 1 invalid."


def test_download_has_the_rows_in_order(operator: Client, lookup: FileLookup) -> None:
    result = {"searched_number": "12125550100", "outcome": "found", "name_a": "=1+1", "spam_b": "true"}
    lookup.rows.filter(number=12125550100).update(outcome="found", result=result)
    url = f"{LIST}{lookup.pk}/download/"
    assert url not in operator.get(f"{LIST}{lookup.pk}/change/").text  # it is not started
    FileLookup.objects.update(state="done")
    assert url in operator.get(f"{LIST}{lookup.pk}/change/").text
    response = operator.post(url)
    assert response["Content-Disposition"] == 'attachment; filename="numbers-answers.csv"'
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    assert b"".join(response).decode("utf-8-sig").splitlines() == [
        "caller,called,searched_number,outcome,name_a,location_a,name_b,spam_b",
        "12125550100,1,12125550100,found,'=1+1,,,true",
        "=1,2,,invalid,,,,",
        "12125550101,3,12125550101,pending,,,,",
        "12125550100,4,12125550100,found,'=1+1,,,true",
    ]


def test_killed_process_is_shown_as_stopped(operator: Client, lookup: FileLookup) -> None:
    FileLookup.objects.update(state="running", seen_at=timezone.now() - uploads.HEARTBEAT_TIMEOUT * 2)
    assert "Interrupted." in operator.get(f"{LIST}{lookup.pk}/change/").text


def test_killed_check_is_hidden_until_prune_deletes_it(operator: Client, lookup: FileLookup) -> None:
    """Its rows may be too many for the time limit of a page."""
    FileLookup.objects.update(state="checking")
    assert "numbers.csv" in operator.get(LIST).text
    FileLookup.objects.update(seen_at=timezone.now() - uploads.HEARTBEAT_TIMEOUT * 2)
    assert "numbers.csv" not in operator.get(LIST).text
    assert FileLookupRow.objects.count() == 4
    assert services.prune() == 1
    assert not FileLookupRow.objects.exists()


def statements(captured: CaptureQueriesContext, begin: str) -> int:
    return sum(query["sql"].startswith(f'{begin} "lookup_filelookuprow"') for query in captured)


def test_wide_rows_are_read_and_written_one_by_one(lookup: FileLookup, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row may have 256 KiB. While one statement writes, nobody else writes to SQLite."""
    monkeypatch.setattr(services, "_BATCH_BYTES", max(lookup.rows.values_list("size", flat=True)))
    with CaptureQueriesContext(connection) as captured:
        services.keep(lookup, 12125550100, result_of("12125550100", None))
    assert statements(captured, "UPDATE") == 2
    assert lookup.rows.filter(outcome="failed").count() == 2
    with CaptureQueriesContext(connection) as captured:
        assert len("".join(services.csv_lines(lookup)).splitlines()) == 5
    assert sum('"cells"' in query["sql"] for query in captured) == 4
    with CaptureQueriesContext(connection) as captured:
        assert services.erase(["12125550100", "12125550101"]) == 3
    assert statements(captured, "DELETE FROM") == 3
    with CaptureQueriesContext(connection) as captured:
        services.discard(lookup)
    assert statements(captured, "DELETE FROM") >= 1
    assert not FileLookupRow.objects.exists()


def test_wide_rows_are_stored_one_by_one(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "_BATCH_BYTES", 600)
    with CaptureQueriesContext(connection) as captured:
        lookup = received(b"number,text\n" + b"12125550100,%b\n" % (b"x" * 300) * 4)
    assert statements(captured, "INSERT INTO") == 4
    assert lookup.size == sum(lookup.rows.values_list("size", flat=True)) > 1_200


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL stores what is long apart")
def test_pages_count_rows_without_reading_them(lookup: FileLookup) -> None:
    outcomes = lookup.rows.values_list("outcome").annotate(count=Count("*"))
    of_number = lookup.rows.filter(number=1, outcome="pending").values_list("line", "size")
    for query in (outcomes, services.unanswered(lookup), of_number):
        assert "COVERING INDEX filelookuprow_outcome" in query.explain()


def test_prune_deletes_files_after_a_week(lookup: FileLookup, monkeypatch: pytest.MonkeyPatch) -> None:
    FileLookup.objects.update(seen_at=timezone.now() - services.KEPT + timedelta(minutes=1))
    assert services.prune() == 0
    FileLookup.objects.update(seen_at=timezone.now() - services.KEPT)
    monkeypatch.setattr(services, "_BATCH_ROWS", 3)  # of 4
    assert services.prune() == 1
    assert not FileLookupRow.objects.exists()


def test_file_with_too_many_rows_is_refused(operator: Client, token: ApiToken, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "MAX_ROWS", 3)
    url = begin(operator).json()["part"]
    operator.post(f"{url}&offset=0", CSV, content_type="application/octet-stream")
    with pytest.raises(Exception, match="Upload"):
        call_command("process_import", str(ImportUpload.objects.get().pk))
    assert "more than 3 rows" in operator.get(FORM).text
    assert not FileLookup.objects.exists()


def test_file_with_too_many_cells_is_refused(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows may have one cell each: the output has all columns in each row."""
    monkeypatch.setattr(services, "MAX_CELLS", 7)  # of two columns
    with pytest.raises(CommandError, match="UnreadableFile"):
        received(b"number,called\n" + b"12125550100\n" * 4)
    assert "more than 3 rows" in ImportUpload.objects.get().error


def test_second_file_is_refused_while_one_is_ready(operator: Client, lookup: FileLookup) -> None:
    response = begin(operator)
    assert (response.status_code, response.json()) == (
        409,
        {"errors": ["You have a file that waits. Reload the page."]},
    )
    assert not ImportUpload.objects.exists()
    with pytest.raises(CommandError, match="UnreadableFile"):
        received(CSV.replace(b"caller", b"number"))
    assert "another file of yours is ready" in ImportUpload.objects.get().error
    assert FileLookup.objects.get() == lookup


def test_files_that_need_too_much_space_are_refused(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    FileLookup.objects.create(user=User.objects.create_user("eve"), size=1_000)
    monkeypatch.setattr(services, "MAX_STORED_BYTES", 1_100)
    with pytest.raises(CommandError, match="UnreadableFile"):
        received(CSV.replace(b"caller", b"number"))
    assert "there is no space for it: discard other files, or use " in ImportUpload.objects.get().error
    assert not FileLookupRow.objects.exists()


@pytest.mark.parametrize("columns", [16_385, 100_000])
def test_file_with_too_many_columns_is_refused(operator: Client, columns: int) -> None:
    with pytest.raises(CommandError, match="UnreadableFile"):
        received(b"number" + b"," * (columns - 1) + b"\n12125550100\n")
    assert f"{columns:,} columns" in ImportUpload.objects.get().error
    assert not FileLookup.objects.exists()


def test_sheet_with_all_its_columns_is_downloaded_in_parts(operator: Client) -> None:
    """Spreadsheets may save all columns, of which few have a name. A part is what one call writes."""
    columns = 16_384
    lookup = received(b"number" + b"," * (columns - 1) + b"\n" + b"12125550100\n" * 300)
    parts = list(services.csv_lines(lookup))
    assert max(map(len, parts)) < csv_cells.PART + 2 * columns
    header, *rows = csv.reader("".join(parts).removeprefix(csv_cells.BYTE_ORDER_MARK).splitlines())
    assert header == ["number", *[""] * (columns - 1), *COLUMNS]
    assert rows == [["12125550100", *[""] * (columns - 1), "12125550100", "pending", "", "", "", ""]] * 300


def received(content: bytes) -> FileLookup:
    """The look-up of a file that olga has uploaded. Raises CommandError if it is refused."""
    user = User.objects.get(username="olga")
    upload = uploads.begin(user=user, kind="lookup", file_name="numbers.csv", size=len(content), options={})
    for offset in range(0, len(content), uploads.PART_BYTES):
        uploads.append(upload, offset=offset, content=content[offset : offset + uploads.PART_BYTES])
    call_command("process_import", str(upload.pk))
    return FileLookup.objects.get()


def receive_with(monkeypatch: pytest.MonkeyPatch, acts: Mapping[int, Callable[[], object]]) -> None:
    """Check the upload in batches of one row; before the batch with a number of `acts`, that happens."""
    real, rows = services._row, list[Any]()

    def row(*arguments: Any) -> FileLookupRow:
        rows.append(arguments)
        acts.get(len(rows), lambda: None)()
        return real(*arguments)

    monkeypatch.setattr(services, "_BATCH_ROWS", 1)
    monkeypatch.setattr(services, "_row", row)
    call_command("process_import", str(ImportUpload.objects.get().pk))


@pytest.fixture
def uploaded(operator: Client, token: ApiToken) -> None:
    operator.post(f"{begin(operator).json()['part']}&offset=0", CSV, content_type="application/octet-stream")


@pytest.mark.usefixtures("uploaded")
def test_page_of_the_upload_names_its_kind(operator: Client) -> None:
    assert ": Numbers to look up, 6" in words(operator.get(FORM).text)


@pytest.mark.usefixtures("uploaded")
def test_numbers_erased_during_the_check_are_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError, match="UnreadableFile"):
        receive_with(monkeypatch, {2: lambda: erase(["12125550101"])})
    assert not FileLookup.objects.exists()
    assert not FileLookupRow.objects.exists()


@pytest.mark.usefixtures("uploaded")
def test_check_of_over_a_minute_is_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    long_ago = timezone.now() - uploads.HEARTBEAT_TIMEOUT * 2
    acts = {2: lambda: FileLookup.objects.update(seen_at=long_ago), 3: services.end_killed}
    receive_with(monkeypatch, acts)
    assert FileLookup.objects.get().state == "ready"


class Session:
    """In place of HTTP: `answer` returns the status and the remaining requests, for a number and a JWT."""

    answer: Callable[[str, str], tuple[int, int]]

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @contextmanager
    def request(self, method: str, url: str, *, json: dict[str, str], headers: dict[str, str]) -> Iterator[Any]:
        number = json["query"]
        status, left = Session.answer(number, json["api_key"])
        combined = {"source_a_available": True, "source_b_available": False}
        data = {"phone_number": number, "source_a": {"name": "Bakery"}, "source_b": {}, "combined": combined}
        body = msgspec.json.encode({"data": data, "credits_remaining": 5})
        raw = SimpleNamespace(read=lambda *_, **__: body)
        yield SimpleNamespace(status_code=status, headers={"RateLimit": f'"token";r={left};t=60'}, raw=raw)


@pytest.fixture
def process(
    monkeypatch: pytest.MonkeyPatch, operator: Client, token: ApiToken, lookup: FileLookup
) -> Callable[..., str]:
    """Start the look-up and run its process, with answers of the service. Returns what stopped it."""

    def run(answer: Callable[[str, str], tuple[int, int]], on_sleep: Callable[[], object] = lambda: None) -> str:
        monkeypatch.setattr(Session, "answer", staticmethod(answer), raising=False)
        monkeypatch.setattr(http, "Session", Session)
        monkeypatch.setattr(lookup_process, "Heartbeat", lambda running: nullcontext())
        clock = SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda seconds: seconds and on_sleep())
        for module in (api_client, retrying_client):
            monkeypatch.setattr(module, "time", clock)
        step(operator, lookup, "start", token=token)
        lookup.refresh_from_db()
        lookup_process.process(lookup.pk, lookup.run)
        lookup.refresh_from_db()
        return f"{lookup.state} {lookup.error}".strip()

    return run


def test_failed_searches_can_be_started_again(process: Callable[..., str], lookup: FileLookup) -> None:
    def fails_once(number: str, _: str) -> tuple[int, int]:
        return (500 if number == "12125550101" else 200), 5

    assert process(fails_once) == "stopped Some searches failed."
    assert process(lambda *_: (200, 5)) == "done"
    assert sorted(lookup.rows.values_list("outcome", flat=True)) == ["found", "found", "found", "invalid"]


def test_token_that_is_rotated_during_a_wait_does_not_stop_it(process: Callable[..., str], token: ApiToken) -> None:
    def verify(_: str, key: str) -> tuple[int, int]:
        jti = jwt.decode(key, options={"verify_signature": False})["jti"]
        return (200, 0) if ApiToken.objects.get(pk=token.pk).jti == jti else (401, 0)

    rotated = list[object]()
    assert process(verify, lambda: rotated.append(tokens.rotate(token=token))) == "done"
    assert rotated


@pytest.mark.parametrize(
    "lose",
    [lambda users: users.update(is_active=False), lambda users: users.get().groups.clear()],
    ids=["active", "role"],
)
def test_user_who_may_no_longer_look_up_files_stops_it(
    process: Callable[..., str], lookup: FileLookup, lose: Callable[[Any], object]
) -> None:
    def answer(*_: str) -> tuple[int, int]:
        lose(User.objects.filter(username="olga"))
        return 200, 5

    assert process(answer) == "stopped The user who started it may no longer look up files."
    assert lookup.rows.filter(outcome="pending").count() == 1


def test_upload_and_start_require_access_to_tokens(lookup: FileLookup, token: ApiToken) -> None:
    user = User.objects.create_user("lena", is_staff=True)
    permissions = Permission.objects.filter(codename__in=("add_filelookup", "view_filelookup"))
    user.user_permissions.add(*permissions)
    client = Client()
    client.force_login(user)
    assert begin(client).status_code == 403
    assert step(client, lookup, "start", token=token).status_code == 403
    lookup.refresh_from_db()
    assert lookup.state == "ready"


def test_import_that_awaits_its_confirmation_is_kept(operator: Client, token: ApiToken) -> None:
    user = User.objects.get(username="olga")
    waiting = uploads.begin(user=user, kind="contacts", file_name="people.csv", size=9, options={})
    ImportUpload.objects.update(state="ready")
    response = begin(operator)
    says = "You have a file waiting under Imports: import or discard it first."
    assert (response.status_code, response.json()) == (409, {"errors": [says]})
    assert ImportUpload.objects.get() == waiting
    ImportUpload.objects.update(kind="lookup", state="checking")
    with pytest.raises(uploads.UploadRefused, match="being checked on another page"):
        uploads.begin(user=user, kind="contacts", file_name="people.csv", size=9, options={})


# --- Waiting for the rate limit ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("wait_s", "is_said"), [(59.0, True), (0.5, False), (-1.0, False)])
def test_page_says_until_when_the_search_waits(
    operator: Client, token: ApiToken, lookup: FileLookup, wait_s: float, is_said: bool
) -> None:
    step(operator, lookup, "start", token=token)
    lookup.refresh_from_db()
    services.wait(lookup, wait_s)
    lookup.refresh_from_db()
    progress = operator.get(f"{LIST}{lookup.pk}/progress/").json()["text"]
    assert progress in words(operator.get(f"{LIST}{lookup.pk}/change/").text)
    until = f"{lookup.waits_until:%H:%M:%S} UTC." if lookup.waits_until else ""
    says = f" The rate limit of the token is reached: the search continues at {until}" if is_said else ""
    assert progress == f"0 of 3 rows are answered.{says}"


def test_time_in_the_past_is_not_shown(operator: Client, token: ApiToken, lookup: FileLookup) -> None:
    FileLookup.objects.update(state="running", token=token, waits_until=timezone.now() - timedelta(seconds=1))
    assert operator.get(f"{LIST}{lookup.pk}/progress/").json()["text"] == "0 of 3 rows are answered."


def test_stopped_search_does_not_wait(operator: Client, token: ApiToken, lookup: FileLookup) -> None:
    """Nor does one that is started again, before its first request."""
    FileLookup.objects.update(state="stopped", waits_until=timezone.now() + timedelta(minutes=5))
    assert operator.get(f"{LIST}{lookup.pk}/progress/").json()["text"] == "0 of 3 rows are answered."
    step(operator, lookup, "start", token=token)
    assert "continues at" not in operator.get(f"{LIST}{lookup.pk}/progress/").json()["text"]


def test_ended_process_does_not_delay_the_next_one(operator: Client, token: ApiToken, lookup: FileLookup) -> None:
    step(operator, lookup, "start", token=token)
    ended = FileLookup.objects.get()
    FileLookup.objects.update(run="another")
    services.wait(ended, 60)
    assert FileLookup.objects.get().waits_until is None
