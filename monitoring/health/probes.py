"""Health checks of one process. `/livez`: it responds. `/readyz`: its database responds, has every migration and the
schema that this version needs, and completes commits, by what it says and by what became of the last searches."""

import asyncio
import logging
import time
from collections.abc import Callable

from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest, HttpResponse, JsonResponse

from core import commits, db, loop, schema_state
from core.database_errors import describe, explain
from core.postgresql import replication
from core.views import AsyncAPIView
from monitoring.health import redis_check

log = logging.getLogger(__name__)

#: Of the statements of /readyz together: each of them has a limit of its own.
TIMEOUT_S = 2.0


class Probe(AsyncAPIView):
    http_method_names = ["get", "head"]
    schema = None


class Livez(Probe):
    async def get(self, request: HttpRequest) -> HttpResponse:
        return JsonResponse({"status": "ok"})


class Readyz(Probe):
    async def get(self, request: HttpRequest) -> HttpResponse:
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
        return self._problem or commits.process_commits.problem()


readiness = Readiness()
#: Each returns one sentence about why this process is not ready, or None.
process_checks: list[Callable[[], str | None]] = []


async def schema_problem() -> str | None:
    """As core.schema_state.problem, on the loop, without `numbers_problem`. Raises django.db's errors."""
    found = schema_state.migration_problem(await db.afetch(schema_state.APPLIED))
    return found or schema_state.schema_problem(await db.afetch(schema_state.SCHEMA))


async def _numbers_problem() -> str | None:
    tables = schema_state.number_tables(await db.afetch(schema_state.APPLIED), await db.afetch(schema_state.SCHEMA))
    return schema_state.describe_numbers([table for table, is_set in tables if await db.afetch(is_set)])


async def reason_to_refuse_start() -> str | None:
    """None also while the database is down or not migrated yet: /readyz says so."""
    try:
        found = await schema_problem()
        await replication.aobserve_commits()  # if there is one, the first searches are refused too
        found = found or await _numbers_problem()
    except (DatabaseError, InterfaceError):
        found = None
    if found and found != schema_state.NOT_MIGRATED:
        return found
    return await loop.run_in_thread(redis_check.reason_to_refuse_start)


async def _problem() -> str | None:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            problem = await schema_problem() or await replication.aobserve_commits()
    except (DatabaseError, InterfaceError, TimeoutError) as error:
        log.warning("not ready: database: %s", describe(error))
        return explain(error, "The database cannot be reached")
    if problem:
        log.warning("not ready: database: %s", problem)
    return problem or next(filter(None, (check() for check in process_checks)), None)
