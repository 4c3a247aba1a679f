"""Health checks. `/livez`: this process responds. `/readyz`: its database responds, has every migration, and completes
commits. The console's dashboard: everything that a search needs."""

import logging
import time
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from rest_framework.request import Request

from callerid_project import proxies
from callerid_project.schema_state import APPLIED, missing_from, missing_migrations
from core import database, redis
from core.database_errors import describe
from core.postgresql import replication, server_log
from core.views import AsyncAPIView
from lookup import source_actions, source_report
from lookup.address_books import status as address_books_status
from lookup.imports import data_sets
from lookup.imports.numbering_plan import NUMBERING_PLAN, installed_version
from lookup.models import SourcePause
from lookup.search import SLOTS, members

log = logging.getLogger(__name__)


class Probe(AsyncAPIView):
    http_method_names = ["get", "head"]
    authentication_classes: list[Any] = []
    schema = None


class Livez(Probe):
    async def get(self, request: Request) -> HttpResponse:
        return JsonResponse({"status": "ok"})


class Readyz(Probe):
    async def get(self, request: Request) -> HttpResponse:
        if problem := await readiness.problem():
            return JsonResponse({"detail": problem}, status=503)
        return JsonResponse({"status": "ok"})


class Readiness:
    """The result of /readyz. Anybody may request it, so it queries the database at most once per MAX_AGE_S; concurrent
    requests get the last result and do not wait."""

    MAX_AGE_S = 1.0

    def __init__(self) -> None:
        self._checking = False
        self._checked_at = float("-inf")
        self._problem: str | None = "Not checked yet"

    async def problem(self) -> str | None:
        """One sentence about why this process is not ready, or None."""
        if time.monotonic() - self._checked_at >= self.MAX_AGE_S and not self._checking:
            self._checking = True
            try:
                self._problem = await _problem()
                self._checked_at = time.monotonic()
            finally:
                self._checking = False
        return self._problem


readiness = Readiness()


async def _problem() -> str | None:
    try:
        if missing_from(await database.fetch(APPLIED)):
            return "Migrations are not applied: run manage.py migrate"
        problem = await replication.find_commit_problem()
    except (DatabaseError, InterfaceError) as error:
        log.warning("not ready: database: %s", describe(error))
        return "The database cannot be reached"
    if problem:
        log.warning("not ready: database: %s", problem)
    return problem


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """The result for one component that searches need. `detail`: one sentence; if unhealthy, also what to do."""

    component: str
    healthy: bool
    detail: str


def checks(request: HttpRequest) -> list[HealthCheck]:
    """Health of this process, now; `request` shows which proxies it passed. Raises DatabaseError if the database does
    not respond."""
    results = [database_server(), redis_server(), redis_memory(), numbering_plan(), complaint_data(), address_books()]
    results += [sources(), _proxies(request), commits(), database_log()]
    return [result for result in results if result]


def database_server() -> HealthCheck:
    if missing_migrations():
        return HealthCheck("Database", False, "Migrations are not applied: run manage.py migrate.")
    return HealthCheck("Database", True, "Reachable; schema up to date.")


def commits() -> HealthCheck | None:
    """None without PostgreSQL."""
    if connection.vendor != "postgresql":
        return None
    if problem := replication.commit_problem(connection.alias):
        advice = "Start the standby, or correct synchronous_standby_names or DATABASE_URL (docs/reliability.md)."
        return HealthCheck("Commits", False, f"{problem}. {advice}")
    return HealthCheck("Commits", True, "They complete.")


def database_log() -> HealthCheck | None:
    """None without PostgreSQL."""
    if connection.vendor != "postgresql":
        return None
    if names := server_log.writes_values(connection.alias):
        sentence = f"May contain numbers and names in plain text: {', '.join(names)} (docs/personal-data.md)."
        return HealthCheck("PostgreSQL log", False, sentence)
    return HealthCheck("PostgreSQL log", True, "Statements are not logged.")


def redis_server() -> HealthCheck:
    if not settings.REDIS_URL:
        return HealthCheck("Redis", True, "Not configured (not needed for one process).")
    try:
        redis.call(redis.client(settings.REDIS_URL).ping)
    except redis.RedisUnavailable:
        return HealthCheck(
            "Redis", False, "Unavailable; each process counts rate limits on its own. Start it, or correct REDIS_URL."
        )
    return HealthCheck("Redis", True, "Reachable.")


def redis_memory() -> HealthCheck | None:
    """None without Redis, or while it is unavailable, which `redis_server` reports."""
    if not settings.REDIS_URL:
        return None
    try:
        problem = redis.eviction_problem()
    except redis.RedisUnavailable:
        return None
    return HealthCheck("Redis memory", not problem, problem or "No limit is evicted.")


def numbering_plan() -> HealthCheck:
    loaded = data_sets.loaded_version(NUMBERING_PLAN)
    if "geography" not in source_actions.configured():
        return HealthCheck("Numbering plan", True, "Not used by any source.")
    if not loaded:
        return HealthCheck("Numbering plan", False, "Not loaded: run manage.py load_numbering_plan.")
    if loaded != installed_version():
        sentence = f"Version {loaded} is loaded, {installed_version()} is installed: run manage.py load_numbering_plan."
        return HealthCheck("Numbering plan", False, sentence)
    return HealthCheck("Numbering plan", True, f"Version {loaded} is loaded.")


def complaint_data() -> HealthCheck:
    """Unhealthy if a loaded data set is older than COMPLAINT_STALE_DAYS, or one of REFRESH_SOURCES was never loaded."""
    if "complaints" not in source_actions.configured():
        return HealthCheck("Complaint data", True, "Not used by any source.")
    loaded = data_sets.loaded(timezone.now())
    stale = [f"{each.source} ({each.age_days:,} days old)" for each in loaded if each.is_stale]
    never = [source for source in settings.REFRESH_SOURCES if source not in {each.source for each in loaded}]
    if stale or never:
        problems = [
            f"{what}: {', '.join(names)}." for what, names in (("Stale", stale), ("Never loaded", never)) if names
        ]
        advice = "Run manage.py refresh_data from cron (docs/importing.md)."
        return HealthCheck("Complaint data", False, " ".join([*problems, advice]))
    ages = ", ".join(f"{each.source} {each.age_days:,}" for each in loaded)
    return HealthCheck("Complaint data", True, f"Age in days: {ages}." if ages else "No published data is loaded.")


def address_books() -> HealthCheck:
    """Unhealthy if a book's settings are invalid, or it was not synchronized for long, or the last run failed."""
    if found := address_books_status.problems(timezone.now()):
        advice = "Run manage.py sync_contacts every hour (docs/address-books.md)."
        return HealthCheck("Address books", False, " ".join([*found, advice]))
    if not settings.ADDRESS_BOOKS:
        return HealthCheck("Address books", True, "Not configured (ADDRESS_BOOKS).")
    return HealthCheck("Address books", True, f"Synchronized: {', '.join(settings.ADDRESS_BOOKS)}.")


def sources() -> HealthCheck:
    """Unhealthy if the circuit breakers of this process pause sources, if the recent calls of a source failed in any
    process, or if operators have paused all sources of a slot. Other pauses are reported as healthy."""
    pauses = SourcePause.objects.in_bulk()
    by_breaker = [
        name for name, member in source_actions.configured().items()
        if member.guard and member.guard.breaker.is_open and name not in pauses
    ]  # fmt: skip
    sentences = [f"Paused after repeated failures: {', '.join(by_breaker)}."] if by_breaker else []
    for failing in source_report.failing(timezone.now()):
        last = failing.last
        count = f", {failing.failed:,} of {failing.total:,} lookups" if failing.total else ""
        reason = f"{last.reason}: {last.hint.removesuffix('.')}" if last.hint else last.reason
        sentences.append(f"Failing: {last.connector}{count}, last at {last.at:%H:%M:%S} UTC ({reason}).")
    without = [slot for slot in SLOTS if {member.name for member in members(slot)} <= pauses.keys()]
    sentences += [f"All sources of {slot} are paused: resume one." for slot in without]
    healthy = not sentences
    paused = [name for name in source_actions.configured() if name in pauses]
    sentences += [f"Paused by an operator: {name} ({source_actions.described(pauses[name])})." for name in paused]
    return HealthCheck("Sources", healthy, " ".join(sentences) or "All configured sources are in use.")


def unexpected_proxy() -> HealthCheck | None:
    """A forwarding header has arrived that TRUSTED_PROXIES does not account for."""
    if settings.TRUSTED_PROXIES > 0 or not proxies.monitor.seen():
        return None
    sentence = (
        "X-Forwarded-For was received, but TRUSTED_PROXIES is 0. Set it to the number of proxies; until then all "
        "clients share the proxy's rate limits. If there is no proxy, a client sent the header and it was ignored."
    )
    return HealthCheck("Proxy", False, sentence)


def _proxies(request: HttpRequest) -> HealthCheck:
    trusted = settings.TRUSTED_PROXIES
    hops = len([hop for hop in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",") if hop.strip()])
    if unexpected := unexpected_proxy():
        return unexpected
    if trusted > hops:
        sentence = (
            f"TRUSTED_PROXIES is {trusted}, but X-Forwarded-For of this request has {hops} entries. Correct the number "
            "or the proxy: clients could forge their address. Ignore this if you opened the console without the proxy."
        )
        return HealthCheck("Proxy", False, sentence)
    return HealthCheck("Proxy", True, f"TRUSTED_PROXIES is {trusted}, as expected.")
