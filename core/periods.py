"""The periods of the console: of figures whole hours or days (UTC), including the current one; of rows, which have a
time of their own, to the minute."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

END = datetime.max.replace(tzinfo=UTC)
_CALENDAR_KEY = re.compile("([0-9]{4})-(?:(0[1-9]|1[0-2])|Q([1-4]))")


@dataclass(frozen=True, slots=True)
class Period:
    """A number of `hours` or of `days`, or a calendar month: the current one, or the last one, which `is_over`, as a
    fixed month or quarter is, `calendar`. `key`: its value in the URL parameter `period`."""

    key: str
    title: str
    hours: int = 0
    days: int = 0
    is_over: bool = False
    calendar: "CalendarPeriod | None" = None

    def since(self, now: datetime) -> datetime:
        """The start of its first hour or day. `now`: in UTC."""
        if self.hours:
            return hour(now) - timedelta(hours=self.hours - 1)
        if self.days:
            return midnight(now) - timedelta(days=self.days - 1)
        return self.calendar_at(now).since

    def until(self, now: datetime) -> datetime:
        """Its end, if it is over; otherwise the end of time."""
        return self.calendar_at(now).until if self.is_over else END

    def exact_since(self, now: datetime) -> datetime:
        """As `since`, for rows: so many hours or days before the current minute."""
        length = timedelta(hours=self.hours, days=self.days)
        return now.replace(second=0, microsecond=0) - length if length else self.since(now)

    def calendar_at(self, now: datetime) -> "CalendarPeriod":
        """The month or quarter that it is, if it is one."""
        return self.calendar or (CalendarPeriod.of(now).previous if self.is_over else CalendarPeriod.of(now))

    def described(self, now: datetime) -> str:
        """`since 2026-01-01 00:00 UTC` or `in January 2026`."""
        return f"in {self.calendar_at(now)}" if self.is_over else f"since {shown(self.since(now))}"

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
#: Titles and months of calendar periods.
CALENDARS = (("Months", 1), ("Quarters", 3))
ALL = (Period("2h", "2 hours", hours=2), DAY, WEEK, MONTH, Period("month", "this month"), LISTED[-1])


def from_query(query: Mapping[str, str]) -> Period:
    """The period that the URL parameter names; DAY when it names none."""
    return next((period for period in ALL if period.key == query.get("period")), DAY)


@dataclass(frozen=True, slots=True)
class CalendarPeriod:
    """A month, or a quarter of a year (UTC). `since`: its start. `length`: 1 or 3 months."""

    since: datetime
    length: int = 1

    @classmethod
    def of(cls, at: datetime, length: int = 1) -> "CalendarPeriod":
        return cls(midnight(at).replace(day=1, month=at.month - (at.month - 1) % length), length)

    @classmethod
    def parse(cls, key: str) -> "CalendarPeriod | None":
        """Reverse `key`. None for any other text."""
        if not (match := _CALENDAR_KEY.fullmatch(key)) or match[1] == "0000":
            return None
        month, length = (int(match[2]), 1) if match[2] else (3 * int(match[3]) - 2, 3)
        return cls(datetime(int(match[1]), month, 1, tzinfo=UTC), length)

    @property
    def until(self) -> datetime:
        """The start of the next one."""
        try:
            return (self.since + timedelta(days=31 * self.length)).replace(day=1)
        except OverflowError:
            return END

    @property
    def next(self) -> "CalendarPeriod":
        return CalendarPeriod(self.until, self.length)

    @property
    def previous(self) -> "CalendarPeriod":
        return CalendarPeriod.of(self.since - timedelta(days=1), self.length)

    @property
    def months(self) -> list["CalendarPeriod"]:
        found = [CalendarPeriod(self.since)]
        while len(found) < self.length:
            found.append(found[-1].next)
        return found

    @property
    def unit(self) -> str:
        return "month" if self.length == 1 else "quarter"

    @property
    def key(self) -> str:
        """Its value in a URL and in the names of files: `2026-01`, `2026-Q1`."""
        return f"{self.since:%Y}-Q{self.since.month // 3 + 1}" if self.length == 3 else f"{self.since:%Y-%m}"

    def __str__(self) -> str:
        if self.length == 1:
            return f"{self.since:%B %Y}"
        return f"Q{self.since.month // 3 + 1} {self.since:%Y} ({self.since:%B} to {self.months[-1].since:%B})"


def listed(key: str) -> Period | None:
    """The period of a list of rows with this key: one of LISTED, a month or a quarter."""
    if calendar := CalendarPeriod.parse(key):
        return Period(key, str(calendar), is_over=True, calendar=calendar)
    return next((each for each in LISTED if each.key == key), None)


def calendars(first: datetime, now: datetime) -> list[tuple[str, list[CalendarPeriod]]]:
    """The months and the quarters since `first`, each with their title, newest first: at least the current ones, and
    none before 2000."""
    return [(title, list(_since(first, CalendarPeriod.of(now, length)))) for title, length in CALENDARS]


def _since(first: datetime, newest: CalendarPeriod) -> Iterator[CalendarPeriod]:
    yield newest
    while newest.since > max(first, datetime(2000, 1, 1, tzinfo=UTC)):
        yield (newest := newest.previous)


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
