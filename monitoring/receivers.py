"""Keeps what searches and commands report. Every command connects these, so they import what they use when they run.

Those of searches never raise and never wait for the database.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.dispatch import receiver

from core import commands
from core.metrics import log_exceptions
from lookup import signals

if TYPE_CHECKING:
    from lookup.models import SourcePause
    from lookup.recording import SearchRecord
    from lookup.search import SlotResult


@receiver(signals.searched)
def count_sources(slots: "Mapping[str, SlotResult]", token_id: int | None, **kwargs: Any) -> None:
    from monitoring import source_statistics

    for slot, result in slots.items():
        source_statistics.count(slot, result.calls, token_id)


@receiver(signals.resumed)
def record_resumption(pause: "SourcePause", **kwargs: Any) -> None:
    from django.utils import timezone

    from monitoring import source_statistics

    source_statistics.record_resumption(pause.connector, timezone.now())


@receiver(signals.answered)
@log_exceptions
def count_request(record: "SearchRecord", **kwargs: Any) -> None:
    from accounts import request_statistics

    request_statistics.count(token_id=record.token.pk if record.token else None, outcome=record.outcome)


@receiver(commands.task_ended)
def record_run(task: str, succeeded: bool | None, **kwargs: Any) -> None:
    from monitoring import task_runs

    if succeeded is None:
        task_runs.forget(task)
    else:
        task_runs.record(task, succeeded=succeeded)
