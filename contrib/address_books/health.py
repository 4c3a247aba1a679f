"""What the health check and the Sources page say about address books."""

import os
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from contrib.address_books import books
from core import periods
from core.commands import command_line
from core.text import sentence
from monitoring.health.registry import Check, Condition, Effect, Findings, NotUsed, Request, problem

#: `sync_contacts` runs every hour: one failure opens no alert.
FAILING = timedelta(hours=3)


def section(now: datetime) -> dict[str, Any] | None:
    """Of the Sources page."""
    statuses = books.statuses(now)
    return {"books": statuses} if statuses else None


def _find(request: Request) -> Findings:
    """A book's settings are invalid, or it was not synchronized for long, or the last run failed."""
    invalid = books.problems(os.environ)
    yield from map(problem, invalid)
    statuses = books.statuses(timezone.now())
    failing = [book for book in statuses if book.is_configured and (book.is_stale or book.row.error)]
    for book in failing:
        row = book.row
        synced = f"Last synchronized at {periods.shown(row.synced_at)}." if row.synced_at else "Never synchronized."
        lasts = book.is_stale or (book.age and book.age > FAILING)
        yield Condition(
            kind="address_book.failing",
            subject=row.name,
            title=f"Address book not synchronized: {row.name}",
            summary=f"{synced} {sentence(row.error)}".strip(),
            hint=f"Run {command_line('sync_contacts')}, and hourly from a timer or cron.",
            effect=Effect.ALERT if lasts else Effect.PROBLEM,
        )
    removed = [book.row for book in statuses if not book.is_configured]
    for row in removed:
        yield problem(
            f"Address book not in ADDRESS_BOOKS: {row.name}. Its {row.contacts:,} contacts stay.",
            f"Add it, or run {command_line(f'sync_contacts --remove {row.name}')}.",
        )
    if not (invalid or failing or removed):
        names = ", ".join(settings.ADDRESS_BOOKS)
        yield f"Synchronized: {names}." if names else NotUsed("Not configured (ADDRESS_BOOKS).")


CHECK = Check("Address books", _find, {"address_book.failing": "address books are not synchronized"}, on_dashboard=True)
