"""The check that published complaints are loaded, and not old."""

from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from core.commands import command_line
from lookup.source_actions import configured
from monitoring import task_runs
from monitoring.health.registry import Check, Condition, Findings, NotUsed, Request
from phonebook.imports import data_sets

#: `refresh_data` runs daily.
FIRST_DOWNLOAD = timedelta(days=2)


def _find(request: Request) -> Findings:
    """A loaded data set is older than COMPLAINT_STALE_DAYS, or one of REFRESH_SOURCES was never loaded, although the
    installation is older than FIRST_DOWNLOAD."""
    if "complaints" not in configured():
        yield NotUsed("No source needs it.")
        return
    loaded = data_sets.loaded(timezone.now())
    stale = {each.source: f"The newest data is {each.age_days:,} days old." for each in loaded if each.is_stale}
    never = sorted(set(settings.REFRESH_SOURCES) - {each.source for each in loaded})
    overdue = never if task_runs.is_overdue(None, FIRST_DOWNLOAD) else []
    for source, summary in {**stale, **dict.fromkeys(overdue, "It was never loaded.")}.items():
        yield Condition(
            kind="data.stale",
            subject=source,
            title=f"Complaint data is stale: {source}",
            summary=summary,
            hint=f"Run {command_line('refresh_data')}, and daily from a timer or cron.",
        )
    if not stale and not overdue:
        ages = ", ".join(f"{each.source} {each.age_days:,}" for each in loaded)
        waiting = f" Not downloaded yet: {', '.join(never)}." if never else ""
        yield (f"Age in days: {ages}." if ages else "No published data is loaded.") + waiting


COMPLAINT_DATA = Check("Complaint data", _find, {"data.stale": "data sets are out of date"}, on_dashboard=True)
