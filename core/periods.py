"""The periods of the console: of figures whole hours or days (UTC), including the current one; of rows, which have a
time of their own, to the minute."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

END = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Period:
    """A number of `hours` or of `days`, or a calendar month: the current one, or the last one, which `is_over`. `key`:
    its value in the URL parameter `period`."""

    key: str
    title: str
    hours: int = 0
    days: int = 0
    is_over: bool = False

    def since(self, now: datetime) -> datetime:
        """The start of its first hour or day. `now`: in UTC."""
        if self.hours:
            return hour(now) - timedelta(hours=self.hours - 1)
        if self.days:
            return midnight(now) - timedelta(days=self.days - 1)
        return self._month(now).since

    def until(self, now: datetime) -> datetime:
        """Its end, if it is over; otherwise the end of time."""
        return self._month(now).until if self.is_over else END

    def exact_since(self, now: datetime) -> datetime:
        """As `since`, for rows: so many hours or days before the current minute."""
        length = timedelta(hours=self.hours, days=self.days)
        return now.replace(second=0, microsecond=0) - length if length else self.since(now)

    def _month(self, now: datetime) -> "CalendarMonth":
        return CalendarMonth.of(now).previous if self.is_over else CalendarMonth.of(now)

    def described(self, now: datetime) -> str:
        """`since 2026-01-01 00:00 UTC` or `in January 2026`."""
        return f"in {self._month(now)}" if self.is_over else f"since {shown(self.since(now))}"

    @property
    def step(self) -> str:
        """What a chart of it has a bar for: `hour` or `day`."""
        return "hour" if self.hours else "day"

    @property
    def step_label(self) -> str:
        """The strftime format of the steps."""
        return "%H:%M" if self.hours else "%b %d"

    def steps(self, now: datetime) -> list[datetime]:
        """The start of each step."""
        since, step = self.since(now), timedelta(hours=1) if self.hours else timedelta(days=1)
        count = (min(self.until(now), now + step) - since) // step
        return [since + step * index for index in range(count)]


def hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def hour_of(timestamp_s: float) -> datetime:
    """The start of the hour (UTC) of a UNIX time."""
    return hour(datetime.fromtimestamp(timestamp_s, UTC))


def day_of(timestamp_s: float) -> str:
    """The day (UTC) of a UNIX time as YYYY-MM-DD."""
    return datetime.fromtimestamp(timestamp_s, UTC).date().isoformat()


def midnight(at: datetime) -> datetime:
    return hour(at).replace(hour=0)


DAY = Period("24h", "24 hours", hours=24)
WEEK = Period("7d", "7 days", days=7)
MONTH = Period("30d", "30 days", days=30)
#: Of rows.
LISTED = (DAY, WEEK, MONTH, Period("last-month", "last month", is_over=True))
ALL = (Period("2h", "2 hours", hours=2), DAY, WEEK, MONTH, Period("month", "this month"), LISTED[-1])


def from_query(query: Mapping[str, str]) -> Period:
    """The period that the URL parameter names; DAY when it names none."""
    return next((period for period in ALL if period.key == query.get("period")), DAY)


@dataclass(frozen=True, slots=True)
class CalendarMonth:
    """A month (UTC). `since`: its start."""

    since: datetime

    @classmethod
    def of(cls, at: datetime) -> "CalendarMonth":
        return cls(midnight(at).replace(day=1))

    @property
    def until(self) -> datetime:
        """The start of the next month."""
        return (self.since + timedelta(days=31)).replace(day=1)

    @property
    def next(self) -> "CalendarMonth":
        return CalendarMonth(self.until)

    @property
    def previous(self) -> "CalendarMonth":
        return CalendarMonth.of(self.since - timedelta(days=1))

    @property
    def key(self) -> str:
        """Its value in the URL parameter `month`: `2026-01`."""
        return f"{self.since:%Y-%m}"

    def __str__(self) -> str:
        return f"{self.since:%B %Y}"


def month_from_query(query: Mapping[str, str], now: datetime) -> CalendarMonth:
    """The month that the URL parameter names; the last complete one if it names none, or one that has not begun."""
    try:
        month = CalendarMonth(datetime.strptime(query.get("month", ""), "%Y-%m").replace(tzinfo=UTC))
    except ValueError:
        return CalendarMonth.of(now).previous
    return month if month.since <= now and month.since.year >= 2000 else CalendarMonth.of(now).previous


def iso(at: datetime) -> str:
    """As in webhooks and in what commands print: `2026-01-31T12:00:00Z`."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def shown(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def time_of_day(at: datetime, now: datetime) -> str:
    """`14:20`; with the date if it is not that of `now`."""
    return f"{at:%H:%M}" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%M}"


def duration(seconds: float) -> str:
    """In the greatest unit of which it is a whole number, `2 hours`; `0 s` for 0."""
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:g} {unit}{'s' * (seconds != length)}"
    return f"{seconds:g} s"
