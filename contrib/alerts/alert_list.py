"""The order of open alerts, and how the dashboard groups those about tokens by kind."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from accounts import request_statistics
from contrib.alerts import incidents, mutes
from contrib.alerts.group_titles import group_title, is_about_token
from contrib.alerts.models import Incident
from core.periods import END

#: Incidents about tokens are limited (token_checks.MAX_TOKENS), the others by the number of sources and data sets.
MAX_READ = 500


@dataclass(frozen=True, slots=True)
class Alert:
    """One incident, or several about tokens, the most urgent first. `title`: of all together."""

    title: str
    incidents: list[Incident]

    @property
    def severity(self) -> str:
        return self.incidents[0].severity

    @property
    def since(self) -> datetime:
        """When the condition began, before the alert opened."""
        return min(each.first_seen_at for each in self.incidents)

    @property
    def muted(self) -> bool:
        return all(each.muted_until for each in self.incidents)


def most_urgent_first(found: Iterable[Incident]) -> list[Incident]:
    """Critical ones, then others, then those about tokens; of each, those that are not muted first, then the tokens
    that stop working first, and otherwise as `found`. Needs `muted_until`. Two statements if some are about tokens."""
    found = list(found)
    ids = {int(each.subject) for each in found if is_about_token(each.kind) and each.subject.isdecimal()}
    ends = request_statistics.ends(ids, timezone.now()) if ids else {}

    def urgency(incident: Incident) -> tuple[bool, bool, bool, datetime]:
        about_token = is_about_token(incident.kind)
        end = ends.get(int(incident.subject), END) if about_token and incident.subject.isdecimal() else END
        return incident.severity != "critical", about_token, bool(incident.muted_until), end

    return sorted(found, key=urgency)


def open_alerts(without: Collection[str] = ()) -> list[Alert]:
    """The most urgent first, also in each group. `without`: these kinds. Two statements, and those of
    `most_urgent_first`."""
    tokens: dict[str, list[Incident]] = defaultdict(list)
    others = []
    found = list(incidents.open_incidents().exclude(kind__in=without)[:MAX_READ])
    mutes.set_muted_until(found, timezone.now())
    for incident in most_urgent_first(found):
        if is_about_token(incident.kind):
            tokens[incident.kind].append(incident)
        else:
            others.append(Alert(incident.title, [incident]))
    return others + [_group(kind, found) for kind, found in tokens.items()]


def _group(kind: str, found: list[Incident]) -> Alert:
    if len(found) == 1:
        return Alert(found[0].title, found)
    return Alert(group_title(kind, [each.subject for each in found]), found)
