"""A month in the life of a service: customers, tokens, ledger, request log, statistics and what add-ons add.

`fill` writes them into an empty database, the same rows for the same day and hour but for their times. Numbers are
reserved for fiction, addresses are of example.org and example.com.
"""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from string import ascii_letters, digits
from typing import Any
from uuid import UUID

from django.contrib.admin.models import ADDITION, CHANGE, LogEntry
from django.contrib.auth.models import Group, User
from django.contrib.contenttypes.models import ContentType
from django.utils import timezone

from accounts import audit
from accounts.models import ApiToken, CreditEntry, Customer, CustomerContact, SearchHour, TokenDay
from core import numbers
from core.hashing import keyed_hash
from lookup.connectors.registry import BUILT_IN
from monitoring import task_runs
from monitoring.models import SourceHour, SourceResult, TokenSourceDay
from phonebook.imports.numbering_plan import installed_version
from phonebook.models import Contact, Country, Dataset, NumberPrefix, NumberRule
from tests.plugin import of_addons

DAYS = 30
CREDIT_PRICE = Decimal("0.03")
#: Ledger entries and requests exist for these last hours; older searches are in the statistics alone.
LOGGED_HOURS = 48

#: Customer, contacts, tokens: name, searches on a working day, balance.
CUSTOMERS: tuple[tuple[str, tuple[str, ...], tuple[tuple[str, int, int], ...]], ...] = (
    (
        "Harbour Street Clinic",
        ("it@harbour.example.org", "billing@harbour.example.org"),
        (("Reception", 210, 4_180), ("Out-of-hours line", 45, 960)),
    ),
    (
        "Brightwater Insurance",
        ("voice@brightwater.example.com",),
        (("Claims desk", 640, 41_900), ("Sales floor", 380, 1_130), ("Staging", 6, 480)),
    ),
    ("Example Bakery", ("owner@bakery.example.org",), (("Shop phone", 14, 86),)),
    (
        "Meadow Veterinary Group",
        ("admin@meadowvets.example.org",),
        (("Practice north", 38, 12), ("Practice south", 29, 610)),
    ),
    (
        "Springfield and District Regional Housing Association, founded 1987",
        ("telephony@springfield.example.org",),
        (("Tenant hotline", 160, 7_700),),
    ),
    ("Kestrel Logistics", ("dev@kestrel.example.com",), (("Driver app", 260, 15_600), ("Warehouse", 22, 0))),
)
FIRST_NAMES = ("Anna", "Ben", "Carla", "David", "Elif", "Farid", "Grace", "Hugo", "Ines", "Jonas", "Kira", "Liam")
LAST_NAMES = ("Adler", "Brooks", "Costa", "Dietrich", "Evans", "Fischer", "Grant", "Hansen", "Ito", "Jansen", "Khan")

#: Outcome → its share of a token's requests.
OUTCOMES = {
    "found_both": 34,
    "found_one": 31,
    "found_none": 24,
    "found_degraded": 3,
    "none_degraded": 1,
    "replayed": 4,
    "rate_limited": 2,
    "invalid": 1,
}
STATUSES = {"rate_limited": 429, "invalid": 400, "no_credits": 403, "failed": 500}
CHARGED = ("found_both", "found_one", "found_none", "found_degraded", "none_degraded")


class Month:
    """What `fill` writes; `now`: the end of the month."""

    def __init__(self, now: datetime, *, source_a: str, source_b: str) -> None:
        self.now = now
        self.hour = now.replace(minute=0, second=0, microsecond=0)
        self.random = random.Random(17)
        self.source_a, self.source_b = source_a, source_b
        self.users = list(self._users())
        self.hours: Counter[tuple[datetime, str]] = Counter()
        self.searched_by: dict[tuple[datetime, str], list[int]] = defaultdict(list)
        #: Of add-ons, what logs a request.
        self.logs = of_addons("LOGS").values()
        #: The last search that both sources matched, by token.
        self.matched: dict[int, CreditEntry | None] = {}

    def _users(self) -> Iterator[User]:
        for name, role in (("maria", "operator"), ("tom", "support"), ("aisha", "auditor")):
            user = User.objects.create_user(name, f"{name}@example.org", is_staff=True)
            user.groups.set(Group.objects.filter(name=role))
            yield user

    def uuid(self) -> str:
        return UUID(int=self.random.getrandbits(128), version=4).hex

    def number(self) -> str:
        prefix, more = self.random.choice((("1212555010", 1), ("4420794600", 2), ("4930231250", 2), ("3319900", 4)))
        return prefix + "".join(self.random.choices(digits, k=more))

    def load(self, at: datetime) -> float:
        """The share of a working day's searches in the hour of `at`."""
        share = max(0.004, (1 - abs(at.hour - 12.5) / 6.5)) / 7
        return share * (0.25 if at.weekday() >= 5 else 1)

    def customers(self) -> Iterator[tuple[Customer, list[tuple[ApiToken, int]]]]:
        for index, (name, addresses, tokens) in enumerate(CUSTOMERS):
            since = self.now - timedelta(days=DAYS + 11 * index + 2)
            customer = Customer.objects.create(name=name, created_at=since)
            for address in addresses:
                CustomerContact.objects.create(customer=customer, email=address)
            made = []
            for token_name, searches, balance in tokens:
                token = ApiToken.objects.create(
                    name=f"{name.split()[0]} {token_name.lower()}",
                    customer=customer,
                    jti=self.uuid(),
                    last_four="".join(self.random.choices(ascii_letters + digits, k=4)),
                    credits=balance,
                    lifetime_days=365,
                    created_at=since,
                    expires_at=since + timedelta(days=365),
                    low_balance_at=500,
                )
                made.append((token, searches))
            yield customer, made

    def statistics(self, token: ApiToken, searches: int) -> None:
        days: Counter[tuple[Any, str]] = Counter()
        for back in range(24 * DAYS):
            at = self.hour - timedelta(hours=back)
            count = round(searches * self.load(at) * self.random.uniform(0.7, 1.3) + self.random.random() - 0.5)
            for outcome, number in Counter(
                self.random.choices(list(OUTCOMES), list(OUTCOMES.values()), k=max(0, count))
            ).items():
                self.hours[at, outcome] += number
                self.searched_by[at, outcome] += [token.pk] * number
                days[at.date(), outcome] += number
        TokenDay.objects.bulk_create(
            TokenDay(token=token, day=day, outcome=outcome, count=count) for (day, outcome), count in days.items()
        )

    def ledger(self, token: ApiToken, searches: int) -> None:
        """Operators' entries of the month, and the searches of the last LOGGED_HOURS with their requests."""
        planned: list[tuple[datetime, str]] = []
        for back in range(LOGGED_HOURS):
            at = self.hour - timedelta(hours=back)
            count = round(searches * self.load(at) * self.random.uniform(0.7, 1.3))
            outcomes = self.random.choices(list(OUTCOMES), list(OUTCOMES.values()), k=count)
            planned += [(at + timedelta(seconds=self.random.uniform(0, 3599)), outcome) for outcome in outcomes]
        if token.credits == 0:
            planned += [(self.hour - timedelta(minutes=7 * n), "no_credits") for n in range(5)]
        planned = sorted(row for row in planned if row[0] < self.now)
        charged = sum(outcome in CHARGED for _, outcome in planned)
        invoice = self.random.randint(100, 900)
        start, balance = token.credits + charged, 0
        amounts = [(token.created_at, "issue", start - start // 3, "First order")]
        if start // 3:
            paid_at = self.now - timedelta(days=self.random.uniform(3, 25))
            amounts.append((paid_at, "top-up", start // 3, f"Invoice 2026-{invoice}"))
        for at, kind, amount, reason in amounts:
            balance += amount
            actor = self.random.choice(["maria", "tom"])
            CreditEntry.objects.create(
                token=token,
                amount=amount,
                balance_after=balance,
                kind=kind,
                actor=actor,
                reason=reason,
                reference=f"2026-{invoice}" if kind == "top-up" else "",
                created_at=at,
                price=Decimal(amount) * CREDIT_PRICE if kind == "top-up" else None,
            )
        before = self.hour - timedelta(hours=LOGGED_HOURS)
        token.last_charged_at = max((at for at, outcome in planned if outcome in CHARGED), default=before)
        token.save(update_fields=["last_charged_at"])
        for at, outcome in planned:
            balance -= outcome in CHARGED
            self.request(token, at, outcome, balance)

    def request(self, token: ApiToken, at: datetime, outcome: str, balance: int) -> None:
        number, request_id, entry = self.number(), self.uuid(), None
        if outcome in CHARGED:
            entry = CreditEntry.objects.create(
                token=token,
                amount=-1,
                balance_after=balance,
                kind="search",
                request_id=request_id,
                number_hash=keyed_hash("number", number),
                created_at=at,
            )
        asked = outcome in CHARGED
        a_us, b_us = (round(self.random.lognormvariate(10.2, 0.9)) for _ in "ab")
        degraded = outcome.endswith("degraded")
        a = "found" if outcome.startswith("found_") and outcome != "found_none" else "not-found"
        b = "failed" if degraded else "found" if outcome == "found_both" else "not-found"
        hint = "it did not answer in time"
        calls = {
            "source_a": [
                ["directory", "not_found" if a != "found" or self.random.random() < 0.6 else "found", 700, ""],
                [self.source_a, "not_found" if a == "not-found" else "found", a_us, ""],
            ],
            "source_b": [[self.source_b, "late" if degraded else b.replace("-", "_"), b_us, hint if degraded else ""]],
        }
        fields = {
            "created_at": at,
            "token": token,
            "request_id": request_id,
            "status": STATUSES.get(outcome, 200),
            "outcome": outcome,
            "charged": asked,
            "replayed": outcome == "replayed",
            "entry": entry,
            "number_mask": "" if outcome == "invalid" else numbers.mask(number),
            "number_hash": None if outcome == "invalid" else keyed_hash("number", number),
            "duration_us": (max(a_us, b_us) if asked else 0) + self.random.randint(2_000, 9_000),
            "source_a": a if asked else "",
            "source_a_us": a_us if asked else None,
            "source_b": b if asked else "",
            "source_b_us": b_us if asked else None,
            "failures": f"source_b:{self.source_b}:late" if degraded else "",
            "calls": json.dumps(calls) if asked else "",
            "idempotency_key": outcome != "invalid",
        }
        for log in self.logs:
            log(**fields)
        if outcome == "found_both":
            self.matched[token.pk] = entry

    def sources(self) -> None:
        rows: dict[tuple[datetime, str, str, str], dict[str, int]] = defaultdict(dict)
        made: Counter[tuple[int, Any, str, str]] = Counter()
        for (at, outcome), count in self.hours.items():
            if outcome not in CHARGED:
                continue
            late = count if outcome.endswith("degraded") else 0
            plan = (
                ("source_a", "directory", "found", count // 5, "ms_1", 700),
                ("source_a", "directory", "not_found", count - count // 5, "ms_1", 600),
                ("source_a", self.source_a, "found", count // 2, "ms_250", 160_000),
                ("source_a", self.source_a, "cached_found", count // 5, "", 0),
                ("source_a", self.source_a, "not_found", count // 10, "ms_100", 80_000),
                ("source_a", "geography", "found", count, "ms_5", 1_200),
                ("source_b", self.source_b, "found", count // 3, "ms_5", 1_900),
                ("source_b", self.source_b, "not_found", count - count // 3 - late, "ms_10", 6_000),
                ("source_b", self.source_b, "late", late, "ms_2500", 1_600_000),
            )
            for slot, connector, result, calls, bucket, us in plan:
                row = rows[at, slot, connector, result]
                row["count"] = row.get("count", 0) + calls
                row["total_us"] = row.get("total_us", 0) + calls * us
                if bucket:
                    row[bucket] = row.get(bucket, 0) + calls
                if bucket and connector not in BUILT_IN:
                    owners = self.searched_by[at, outcome]
                    made.update((owners[n * count // calls], at.date(), slot, connector) for n in range(calls))
        TokenSourceDay.objects.bulk_create(
            TokenSourceDay(token_id=token_id, day=day, slot=slot, connector=connector, calls=calls)
            for (token_id, day, slot, connector), calls in made.items()
        )
        SourceHour.objects.bulk_create(
            (
                SourceHour(hour=hour, slot=slot, connector=connector, outcome=outcome, **values)
                for (hour, slot, connector, outcome), values in rows.items()
                if values["count"]
            ),
            ignore_conflicts=True,  # the service may have counted in this hour
        )
        ms = int(self.now.timestamp() * 1000)
        results = [(name, "", "", 4_000) for name in ("directory", self.source_a, "geography", self.source_b)]
        results.append((self.source_b, "late", "It did not answer in time.", 1_380_000))
        SourceResult.objects.bulk_create(
            (SourceResult(connector=name, reason=why, hint=hint, last_ms=ms - ago) for name, why, hint, ago in results),
            ignore_conflicts=True,
        )

    def directory(self) -> None:
        for n in range(60):
            name = f"{self.random.choice(FIRST_NAMES)} {self.random.choice(LAST_NAMES)}"
            Contact.objects.get_or_create(
                number=int(f"4930231250{n:02}"), defaults={"name": name, "location": "Berlin" if n % 3 else ""}
            )
        rules = (
            (12125550187, True, "", "Robocalls, reported by three customers"),
            (442079460011, False, "Example Bank", "Verified by letter"),
            (493023125099, None, "Harbour Street Clinic", ""),
        )
        for number, spam, name, note in rules:
            NumberRule.objects.get_or_create(number=number, defaults={"spam": spam, "name": name, "note": note})
        places = ((4930, "Berlin"), (4440, "London"), (4420, "London"), (1212, "New York City"), (33199, "France"))
        for prefix, place in places:
            NumberPrefix.objects.get_or_create(prefix=prefix, defaults={"place": place})
        for code, country in {"DE": "Germany", "GB": "United Kingdom", "US": "United States", "FR": "France"}.items():
            Country.objects.get_or_create(code=code, defaults={"name": country})
        yesterday = f"{self.now - timedelta(days=1):%Y-%m-%d}"
        for name, version, count in (
            ("numbering-plan", installed_version(), 287_109),
            ("complaints ftc", yesterday, 12_000),
            ("list phoneblock", "4211", 11_193),
        ):
            Dataset.objects.update_or_create(name=name, defaults={"version": version, "rows": count})

    def history(self, tokens: list[ApiToken]) -> None:
        kind = ContentType.objects.get_for_model(ApiToken)
        LogEntry.objects.bulk_create(
            LogEntry(
                user=self.random.choice(self.users),
                action_time=self.now - timedelta(days=self.random.uniform(0, DAYS)),
                content_type=kind,
                object_id=str(token.pk),
                object_repr=str(token),
                action_flag=flag,
                change_message=message,
            )
            for token in tokens
            for flag, message in ((ADDITION, "Issued."), (CHANGE, "Topped up: 1,000 credits."))
        )


def fill(*, source_a: str = "twilio", source_b: str = "complaints") -> dict[str, int]:
    """Fill the database; returns primary keys for tests. `source_a`, `source_b`: the member of each slot that is
    called most."""
    month, tokens = Month(timezone.now().astimezone(UTC), source_a=source_a, source_b=source_b), []
    made: dict[str, int] = {}
    for customer, owned in month.customers():
        made.setdefault("customer", customer.pk)
        for token, searches in owned:
            tokens.append(token)
            month.statistics(token, searches)
            month.ledger(token, searches)
    SearchHour.objects.bulk_create(
        (SearchHour(hour=hour, outcome=outcome, count=count) for (hour, outcome), count in month.hours.items()),
        ignore_conflicts=True,  # the service may have counted in this hour
    )
    month.sources()
    month.directory()
    month.history(tokens)
    low = next(token for token in tokens if token.credits == 12)
    for name in (audit.TASK, task_runs.PRUNE):
        task_runs.record(name, succeeded=True)
    for add in of_addons("MONTH").values():
        made |= add(month, low)
    made["token"] = tokens[0].pk
    search = month.matched[tokens[0].pk]
    assert search is not None
    return made | {"search": search.pk} | {name: find(search) for name, find in of_addons("LOGGED").items()}
