"""The request log: rows say what happened, hold no number, name or answer, and cost a search nothing when they fail."""

import json
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from accounts import charging, credits
from accounts.models import CreditEntry, SearchHour
from callerid_project.management.commands.prune import Command as Prune
from contrib.request_log import log
from contrib.request_log.models import RequestLogEntry
from core import metrics, write_buffer
from core.hashing import keyed_hash
from phonebook.models import NumberRule
from tests.api import NUMBER, Integrator

T = "tests.connectors."
FACTS = ("status", "outcome", "charged", "replayed", "source_a", "source_b", "failures")


def logged() -> list[RequestLogEntry]:
    write_buffer.process_buffer.flush()
    return list(RequestLogEntry.objects.order_by("pk"))


def facts() -> list[tuple[Any, ...]]:
    return [tuple(getattr(row, name) for name in FACTS) for row in logged()]


# --- Rows --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source_a", "source_b", "row"),
    [
        ("Knows", "Knows", (200, "found_both", True, False, "found", "found", "")),
        ("Knows", "KnowsNothing", (200, "found_one", True, False, "found", "not-found", "")),
        (f"Fails,{T}Knows", "Knows", (200, "found_both", True, False, "found", "found", f"source_a:{T}Fails:down")),
        ("KnowsNothing", "KnowsNothing", (200, "found_none", True, False, "not-found", "not-found", "")),
        ("Fails", "Knows", (200, "found_degraded", True, False, "failed", "found", f"source_a:{T}Fails:down")),
        ("KnowsNothing", "Lies", (200, "none_degraded", True, False, "not-found", "failed", f"source_b:{T}Lies:error")),
        (
            "Fails",
            "Fails",
            (500, "failed", False, False, "failed", "failed", f"source_a:{T}Fails:down source_b:{T}Fails:down"),
        ),
    ],
)
def test_a_row_says_what_came_of_a_search(
    integrator: Integrator, settings: Any, source_a: str, source_b: str, row: tuple[Any, ...]
) -> None:
    settings.SOURCE_A, settings.SOURCE_B = T + source_a, T + source_b
    integrator.search()
    assert facts() == [row]


def test_a_row_refers_to_token_request_and_ledger_entry(integrator: Integrator) -> None:
    before = timezone.now()
    response = integrator.search()
    (row,) = logged()
    entry = CreditEntry.objects.get(kind="search")
    assert (row.token, row.entry, row.request_id) == (integrator.token, entry, response.headers["X-Request-ID"])
    assert before <= row.created_at <= timezone.now()
    assert 0 < row.duration_us < 60_000_000
    assert 0 <= (row.source_a_us or -1) <= row.duration_us


def test_a_row_holds_only_mask_and_hash_of_the_number(integrator: Integrator) -> None:
    NumberRule.objects.create(number=int(NUMBER), name="Alice Example")
    integrator.search()
    (row,) = logged()
    assert row.number_mask == "49********42"
    assert bytes(row.number_hash or b"") == keyed_hash("number", NUMBER)
    assert bytes(CreditEntry.objects.get(kind="search").number_hash or b"") == keyed_hash("number", NUMBER)
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM monitoring_requestlogentry")
        text = str([str(bytes(value)) if isinstance(value, memoryview) else value for value in cursor.fetchone()])
    for word in (NUMBER, "Alice", "Local", integrator.key):
        assert word not in text


def test_number_that_cannot_exist_is_marked(integrator: Integrator, settings: Any) -> None:
    settings.CHARGE_IMPOSSIBLE = False
    settings.SOURCE_A = settings.SOURCE_B = T + "KnowsNothing"
    integrator.search("12025550")
    (row,) = logged()
    assert {calls[-1][0] for calls in json.loads(row.calls).values()} == {"numbering plan"}
    assert (row.outcome, row.charged) == ("given_away", False)


def test_calls_have_connector_outcome_duration_and_hint(integrator: Integrator, settings: Any) -> None:
    NumberRule.objects.create(number=int(NUMBER), spam=True)
    settings.SOURCE_A, settings.SOURCE_B = f"{T}Raises,{T}KnowsName", T + "RemoteKnows"
    for _ in range(2):
        integrator.search()
    first, second = (json.loads(row.calls) for row in logged())
    assert [[*call[:2], *call[3:]] for call in first["source_a"]] == [
        [f"{T}Raises", "error", "it raised RuntimeError"],
        [f"{T}KnowsName", "found", ""],
    ]
    assert all(isinstance(call[2], int) for call in first["source_a"])
    assert first["source_b"][0] == ["operator rules", "found", None, ""]
    assert [call[1] for calls in (first, second) for call in calls["source_b"][1:]] == ["found", "cached_found"]


def test_refusals_are_logged_with_their_status(integrator: Integrator, settings: Any) -> None:
    settings.RATE_LIMIT = (4, 60)
    integrator.search("no number")
    integrator.search(Idempotency_Key="not\twell-formed")
    credits.adjust(token=integrator.token, amount=-10, actor="test", reason="none left")
    integrator.search()
    integrator.search()
    integrator.search()
    assert [row[:6] for row in facts()] == [
        (400, "invalid", False, False, "", ""),
        (400, "invalid", False, False, "", ""),
        (403, "no_credits", False, False, "", ""),
        (403, "no_credits", False, False, "", ""),
        (429, "rate_limited", False, False, "", ""),
    ]
    assert [row.number_mask for row in logged()] == ["", "49********42", "49********42", "49********42", ""]
    assert [row.number_hash is not None for row in logged()] == [False, True, True, True, False]


def test_a_charge_refused_after_the_search_shows_the_sources(
    integrator: Integrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**kwargs: Any) -> None:
        raise charging.NoCreditsLeft

    monkeypatch.setattr(charging, "charge", refuse)
    integrator.search()
    assert facts() == [(403, "no_credits", False, False, "found", "found", "")]


def test_a_replay_is_logged_uncharged_and_without_sources(integrator: Integrator) -> None:
    for _ in range(2):
        integrator.search(Idempotency_Key="k")
    assert facts()[1] == (200, "replayed", False, True, "", "", "")
    assert [row.entry_id is not None for row in logged()] == [True, False]


def test_a_row_says_whether_there_was_an_idempotency_key(integrator: Integrator) -> None:
    integrator.search()
    for key in ("k", "k", "not\twell-formed"):
        integrator.search(Idempotency_Key=key)
    assert [row.idempotency_key for row in logged()] == [False, True, True, True]


@pytest.mark.django_db
def test_requests_with_a_test_token_are_logged_as_such() -> None:
    integrator = Integrator(is_test=True)
    for number in ("12125550100", "12125550108", "12125550110"):
        integrator.search(number)
    assert facts() == [
        (200, "test", False, False, "found", "found", ""),
        (500, "test", False, False, "failed", "failed", "source_a:-:test source_b:-:test"),
        (429, "test", False, False, "", "", ""),
    ]


def test_requests_without_a_valid_token_are_not_logged(integrator: Integrator) -> None:
    integrator.send({"api_key": "x", "query": NUMBER})
    integrator.post(b"not json")
    integrator.client.get("/callerid/search")
    assert logged() == []


def test_rows_equal_the_statistics(integrator: Integrator, settings: Any) -> None:
    settings.RATE_LIMIT = (6, 60)
    for sources in (("Knows", "Fails"), ("Fails", "Fails"), ("Knows", "KnowsNothing")):
        settings.SOURCE_A, settings.SOURCE_B = (T + source for source in sources)
        integrator.search(Idempotency_Key=str(sources))
        integrator.search(Idempotency_Key=str(sources))
    integrator.search()
    write_buffer.process_buffer.flush()
    outcomes = [row.outcome for row in logged()]
    counts = dict(SearchHour.objects.values_list("outcome", "count"))
    assert {outcome: outcomes.count(outcome) for outcome in outcomes} == counts


# --- Bounds ------------------------------------------------------------------------------------------------------


def test_rate_limited_requests_are_logged_up_to_a_limit(
    integrator: Integrator, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MAX_RATE_LIMITED", 2)
    other = Integrator()
    settings.RATE_LIMIT = (1, 3600)
    began = timezone.now().replace(second=0)
    for moment in (began, began + timedelta(minutes=1)):
        monkeypatch.setattr(log, "datetime", SimpleNamespace(now=lambda _, moment=moment: moment))
        for caller in (integrator, other):
            for _ in range(4):
                caller.search()
    refused = [(row.created_at.minute, row.token_id) for row in logged() if row.status == 429]
    assert len(refused) == 8
    assert all(refused.count(each) == 2 for each in refused)


def test_log_is_off_with_0_days_and_prune_deletes_the_rest(integrator: Integrator, settings: Any) -> None:
    integrator.search()
    assert len(logged()) == 1
    settings.REQUEST_LOG_DAYS = 0
    assert integrator.search().status_code == 200
    assert len(logged()) == 1
    assert log.prune() == 1
    assert logged() == []
    assert "REQUEST_LOG_DAYS" in Prune.help


def test_prune_deletes_in_batches_what_is_too_old(integrator: Integrator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "PRUNE_ROWS", 2)
    for _ in range(6):
        integrator.search()
    kept, *old = logged()
    too_old = timezone.now() - timedelta(days=7, minutes=1)
    RequestLogEntry.objects.filter(pk__in=[row.pk for row in old]).update(created_at=too_old)
    assert log.prune() == 5
    assert logged() == [kept]


def test_without_prune_rows_a_day_overdue_are_deleted(integrator: Integrator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The failing sequence: nobody runs `prune`, and the table grows until the disk is full."""
    for _ in range(3):
        integrator.search()
    logged()
    RequestLogEntry.objects.update(created_at=timezone.now() - timedelta(days=7, hours=23))
    monkeypatch.setattr(metrics, "_samplers", [])
    log.delete_while_serving()
    metrics.sample()
    assert len(logged()) == 3
    RequestLogEntry.objects.update(created_at=timezone.now() - timedelta(days=8, minutes=1))
    metrics.sample()
    assert logged() == []


def test_overdue_rows_are_found_by_their_index(integrator: Integrator) -> None:
    integrator.search()
    logged()
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
    assert "requestlog_created" in log.overdue().explain()


def test_every_column_is_written() -> None:
    columns = {field.attname for field in RequestLogEntry._meta.concrete_fields}
    assert columns == {"id", *log.TABLE.key, *log.TABLE.values}


# --- Failures ----------------------------------------------------------------------------------------------------


def test_an_error_while_logging_never_fails_a_search(
    integrator: Integrator, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError(NUMBER)

    monkeypatch.setattr(write_buffer.process_buffer, "add", fail)
    assert integrator.search().status_code == 200
    assert "statistics: not counted (RuntimeError)" in caplog.messages
    assert NUMBER not in caplog.text
