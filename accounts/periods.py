"""The spans of time that the console tells figures of: whole hours or days (UTC), the present one included."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Period:
    """`key`: as an address names it. Of `hours` hours or of `days` days."""

    key: str
    title: str
    hours: int = 0
    days: int = 0

    def since(self, now: datetime) -> datetime:
        """When its first hour or day begins. `now`: in UTC."""
        if self.days:
            return midnight(now) - timedelta(days=self.days - 1)
        return hour(now) - timedelta(hours=self.hours - 1)


def hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def midnight(at: datetime) -> datetime:
    return hour(at).replace(hour=0)


DAY = Period("24h", "24 hours", hours=24)
WEEK = Period("7d", "7 days", days=7)
MONTH = Period("30d", "30 days", days=30)
ALL = (DAY, WEEK, MONTH)
WITH_SHORTEST = (Period("2h", "2 hours", hours=2), *ALL)


def asked_for(query: Mapping[str, str], among: Sequence[Period] = ALL) -> Period:
    """The one that `?period=` names; DAY when it names none."""
    return next((period for period in among if period.key == query.get("period")), DAY)
