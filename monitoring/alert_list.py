"""The open alerts as the dashboard lists them: critical ones first, and those about tokens grouped by kind."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from monitoring import incidents, mutes
from monitoring.group_titles import TOKEN_KINDS, group_title
from monitoring.models import Incident

#: Incidents about tokens are limited (health.operations.MAX_TOKENS), the others by the number of sources and data sets.
MAX_READ = 500


@dataclass(frozen=True, slots=True)
class Alert:
    """One incident, or several about tokens, the newest first. `title`: of all together."""

    title: str
    incidents: list[Incident]

    @property
    def severity(self) -> str:
        return self.incidents[0].severity

    @property
    def since(self) -> datetime | None:
        return min(each.opened_at for each in self.incidents if each.opened_at)

    @property
    def muted(self) -> bool:
        return all(each.muted_until for each in self.incidents)


def open_alerts() -> list[Alert]:
    """Critical ones, then others, then those about tokens; of each, the newest first. Two statements."""
    tokens: dict[str, list[Incident]] = defaultdict(list)
    others = []
    found = list(incidents.open_incidents()[:MAX_READ])
    mutes.set_muted_until(found, timezone.now())
    for incident in found:
        if incident.kind in TOKEN_KINDS:
            tokens[incident.kind].append(incident)
        else:
            others.append(Alert(incident.title, [incident]))
    alerts = others + [_group(kind, tokens[kind]) for kind in TOKEN_KINDS if kind in tokens]
    return sorted(alerts, key=lambda each: each.severity != "critical")


def _group(kind: str, found: list[Incident]) -> Alert:
    if len(found) == 1:
        return Alert(found[0].title, found)
    return Alert(group_title(kind, [each.subject for each in found]), found)
