"""When maintenance commands last succeeded and last failed: for /metrics and `doctor`, which other processes run."""

import logging
from datetime import datetime, timedelta

from django.db import DatabaseError
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from accounts import audit
from core import metrics
from monitoring.models import TaskRun

log = logging.getLogger(__name__)

#: The names of the runs. (Others: accounts.audit, and commands of add-ons.)
PRUNE = "prune"

#: `prune` runs daily, the audit of the whole ledger weekly. As in deploy/prometheus/alerts.yml.
OVERDUE = {PRUNE: timedelta(days=2), audit.TASK: timedelta(days=9)}

LAST_SUCCESS = metrics.Gauge(
    "callerid_task_last_success_timestamp_seconds",
    "When the command last succeeded, on any host; 0: never.",
    ("task",),
    zeros=[(PRUNE,), (audit.TASK,), (audit.TASK_SINCE,)],
)
LAST_FAILURE = metrics.Gauge(
    "callerid_task_last_failure_timestamp_seconds",
    "When the command last found something wrong, on any host; 0: never.",
    ("task",),
    zeros=[(audit.TASK,), (audit.TASK_SINCE,)],
)
INSTALLED = metrics.Gauge(
    "callerid_installed_timestamp_seconds",
    "When the database's first migration was applied: a task that never succeeded is overdue from then on.",
)


def record(name: str, *, succeeded: bool) -> None:
    """Record that a run ended now. Never fails the command: a role that may only read can audit too."""
    ended = {"succeeded_at" if succeeded else "failed_at": timezone.now()}
    try:
        TaskRun.objects.update_or_create(name=name, defaults=ended)
    except DatabaseError as error:
        log.warning("the run of %s is not recorded (%s)", name, type(error).__name__)


def advance(name: str, to: datetime) -> None:
    """Record that a run read what was written until `to`. Its record is locked until the end of the transaction."""
    TaskRun.objects.update_or_create(name=name, defaults={"succeeded_at": to})


def forget(name: str) -> None:
    """Delete the record of a task that is no longer run."""
    TaskRun.objects.filter(name=name).delete()


def all_runs() -> dict[str, TaskRun]:
    """By name; a run that never ended is not among them."""
    return TaskRun.objects.in_bulk()


def succeeded_at(name: str) -> datetime | None:
    """When the last run that succeeded ended."""
    return TaskRun.objects.filter(name=name).values_list("succeeded_at", flat=True).first()


def installed_at() -> datetime | None:
    """When the first migration was applied."""
    migrations = MigrationRecorder.Migration.objects.order_by("applied")
    return migrations.values_list("applied", flat=True).first()


def is_overdue(succeeded_at: datetime | None, limit: timedelta) -> bool:
    """Whether what last succeeded then, or has not yet since the installation, should have within `limit`."""
    return (succeeded_at or installed_at() or timezone.now()) < timezone.now() - limit


@metrics.sampler
def sample() -> None:
    if at := installed_at():
        INSTALLED.set(at.timestamp())
    for run in all_runs().values():
        if run.succeeded_at:
            LAST_SUCCESS.set(run.succeeded_at.timestamp(), run.name)
        if run.failed_at:
            LAST_FAILURE.set(run.failed_at.timestamp(), run.name)
