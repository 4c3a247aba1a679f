"""`/livez`: this process answers. `/readyz`: so does its database, and every migration is applied there."""

import logging
from functools import lru_cache

from django.db import DatabaseError, InterfaceError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

log = logging.getLogger(__name__)


class Probe(APIView):
    http_method_names = ["get", "head"]
    schema = None


class Livez(Probe):
    def get(self, request: Request) -> Response:
        return Response({"status": "ok"})


class Readyz(Probe):
    def get(self, request: Request) -> Response:
        try:
            missing = _known_migrations() - MigrationRecorder(connection).applied_migrations().keys()
        except (DatabaseError, InterfaceError) as error:
            log.warning("not ready: database: %s", type(error).__name__)
            return Response({"detail": "The database cannot be reached"}, status=503)
        if missing:
            return Response({"detail": "Migrations are not applied: run manage.py migrate"}, status=503)
        return Response({"status": "ok"})


@lru_cache(maxsize=1)
def _known_migrations() -> frozenset[tuple[str, str]]:
    return frozenset(MigrationLoader(None).disk_migrations)
