"""`/livez`: this process answers. `/readyz`: so does its database, and every migration is applied there."""

import logging
from functools import lru_cache

from django.db import DatabaseError, InterfaceError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

log = logging.getLogger(__name__)


@require_safe
def livez(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    try:
        missing = _known_migrations() - MigrationRecorder(connection).applied_migrations().keys()
    except (DatabaseError, InterfaceError) as error:
        log.warning("not ready: database: %s", type(error).__name__)
        return JsonResponse({"detail": "The database cannot be reached"}, status=503)
    if missing:
        return JsonResponse({"detail": "Migrations are not applied: run manage.py migrate"}, status=503)
    return JsonResponse({"status": "ok"})


@lru_cache(maxsize=1)
def _known_migrations() -> frozenset[tuple[str, str]]:
    return frozenset(MigrationLoader(None).disk_migrations)
