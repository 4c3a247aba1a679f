"""Keeps what searches and commands report. Those of searches never raise and never wait for the database."""

from collections.abc import Mapping
from typing import Any

from django.dispatch import receiver

from accounts import request_statistics
from core import commands
from core.metrics import log_exceptions
from lookup import signals
from lookup.recording import SearchRecord
from lookup.search import SlotResult
from monitoring import request_log, source_statistics, task_runs


@receiver(signals.searched)
def count_sources(slots: Mapping[str, SlotResult], **kwargs: Any) -> None:
    for slot, result in slots.items():
        source_statistics.count(slot, result.calls)


@receiver(signals.answered)
@log_exceptions
def record_request(record: SearchRecord, number_mask: str, **kwargs: Any) -> None:
    request_statistics.count(token_id=record.token.pk if record.token else None, outcome=record.outcome)
    request_log.add(record, number_mask)


@receiver(signals.breaker_changed)
def count_event(connector: str, event: str, **kwargs: Any) -> None:
    source_statistics.count_event(connector, event)


@receiver(commands.task_ended)
def record_run(task: str, succeeded: bool | None, **kwargs: Any) -> None:
    if succeeded is None:
        task_runs.forget(task)
    else:
        task_runs.record(task, succeeded=succeeded)
