"""Is the service well? `/livez`: this process answers. `/readyz`: so does its database, and every migration is applied
there. The console's dashboard: what else a search needs."""

import logging
import threading
import time
from dataclasses import dataclass
from functools import lru_cache

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from accounts import shared_store
from accounts.postgresql import server_log
from callerid_project import proxies
from lookup import sources
from lookup.connectors.chain import Member
from lookup.datasets import numbering_plan
from lookup.datasets.plan import NUMBERING_PLAN
from lookup.models import Dataset
from lookup.search import SLOTS, members

log = logging.getLogger(__name__)


class Probe(APIView):
    http_method_names = ["get", "head"]
    schema = None


class Livez(Probe):
    def get(self, request: Request) -> Response:
        return Response({"status": "ok"})


class Readyz(Probe):
    def get(self, request: Request) -> Response:
        if problem := readiness.problem():
            return Response({"detail": problem}, status=503)
        return Response({"status": "ok"})


class Readiness:
    """What /readyz answers. Anybody may ask, so the database is asked at most once in MAX_AGE_S, by one thread: those
    that ask meanwhile get the last result and do not wait."""

    MAX_AGE_S = 1.0

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._checked_at = float("-inf")
        self._problem: str | None = "Not checked yet"

    def problem(self) -> str | None:
        """Why this process is not ready, in one sentence, or None."""
        if time.monotonic() - self._checked_at >= self.MAX_AGE_S and self._lock.acquire(blocking=False):
            try:
                self._problem = _problem()
                self._checked_at = time.monotonic()
            finally:
                self._lock.release()
        return self._problem


readiness = Readiness()


def _problem() -> str | None:
    try:
        missing = missing_migrations()
    except (DatabaseError, InterfaceError) as error:
        log.warning("not ready: database: %s", type(error).__name__)
        return "The database cannot be reached"
    return "Migrations are not applied: run manage.py migrate" if missing else None


def missing_migrations() -> frozenset[tuple[str, str]]:
    return _known_migrations() - MigrationRecorder(connection).applied_migrations().keys()


@lru_cache(maxsize=1)
def _known_migrations() -> frozenset[tuple[str, str]]:
    return frozenset(MigrationLoader(None).disk_migrations)


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one thing that searches need: `well`, and a sentence that says so."""

    what: str
    well: bool
    sentence: str


def findings(request: HttpRequest) -> list[Finding]:
    """Of this process, now; `request` shows which proxies it passed. Raises DatabaseError where the database does not
    answer."""
    found = [_database(), _redis(), _numbering_plan(), _sources(), _proxies(request)]
    return [*found, _database_log()] if connection.vendor == "postgresql" else found


def _database() -> Finding:
    if missing_migrations():
        return Finding("Database", False, "Migrations are not applied: run manage.py migrate.")
    return Finding("Database", True, "It answers, and every migration is applied.")


def _database_log() -> Finding:
    if names := server_log.writes_values(connection.alias):
        sentence = f"It may get numbers and names in clear: {', '.join(names)} (docs/personal-data.md)."
        return Finding("PostgreSQL's log", False, sentence)
    return Finding("PostgreSQL's log", True, "Statements are not written to it.")


def _redis() -> Finding:
    if not settings.REDIS_URL:
        return Finding("Redis", True, "Not configured, and one process needs none.")
    try:
        shared_store.ask(shared_store.client(settings.REDIS_URL).ping)
    except shared_store.Away:
        return Finding("Redis", False, "It does not answer: each process counts its limits alone.")
    return Finding("Redis", True, "It answers.")


def _numbering_plan() -> Finding:
    loaded = Dataset.objects.filter(name=NUMBERING_PLAN).values_list("version", flat=True).first()
    if "geography" not in _bound():
        return Finding("Numbering plan", True, "No slot asks it.")
    if loaded is None:
        return Finding("Numbering plan", False, "Not loaded: run manage.py load_numbering_plan.")
    if loaded != numbering_plan.version():
        sentence = f"Version {loaded} is loaded and {numbering_plan.version()} installed: run load_numbering_plan."
        return Finding("Numbering plan", False, sentence)
    return Finding("Numbering plan", True, f"Version {loaded} is loaded.")


def _sources() -> Finding:
    """Of this process: which sources its circuit breakers pause. Of all: whose recent calls failed."""
    paused = [name for name, member in _bound().items() if member.guard and member.guard.breaker.is_open]
    sentences = [f"Paused after repeated failures: {', '.join(paused)}."] if paused else []
    for failing in sources.failing(timezone.now()):
        last = failing.last
        of_hour = f", {failing.failed:,} of {failing.total:,} this hour" if failing.total else ""
        why = f"{last.reason}: {last.hint.removesuffix('.')}" if last.hint else last.reason
        sentences.append(f"Failing: {last.connector}{of_hour}, last at {last.at:%H:%M:%S} UTC ({why}).")
    return Finding("Sources", not sentences, " ".join(sentences) or "All configured sources are in use.")


def _proxies(request: HttpRequest) -> Finding:
    trusted, hops = settings.TRUSTED_PROXIES, proxies.forwarded_hops(request)
    if trusted == 0 and proxies.monitor.seen():
        sentence = (
            "X-Forwarded-For received but TRUSTED_PROXIES is 0; set it to the number of proxies, or all clients share "
            "the limits of the proxy's address. Without a proxy, a client sent the header, and it was ignored."
        )
        return Finding("Proxy", False, sentence)
    if trusted > hops:
        sentence = (
            f"TRUSTED_PROXIES is {trusted}, but X-Forwarded-For of this request has {hops} entries; correct the number "
            "or the proxy, or a client may choose its address. Ignore this if you opened the console past the proxy."
        )
        return Finding("Proxy", False, sentence)
    return Finding("Proxy", True, f"TRUSTED_PROXIES is {trusted}, and nothing contradicts it.")


def _bound() -> dict[str, Member]:
    return {member.name: member for slot in SLOTS for member in members(slot)}
