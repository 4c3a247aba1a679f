"""The client of `manage.py dbshell`: psql, connected as the service connects."""

from collections.abc import Iterable
from typing import Any

from django.db.backends.postgresql import client
from psycopg import pq
from psycopg.conninfo import make_conninfo

#: Not arguments, which other users of the host can list.
SECRETS = {"password", "sslpassword"}


class DatabaseClient(client.DatabaseClient):
    """Django's own drops most of libpq's parameters, among them target_session_attrs: with several hosts, psql would
    connect to the first that answers, even if that is a standby."""

    @classmethod
    def settings_to_cmd_args_env(
        cls, settings_dict: dict[str, Any], parameters: Iterable[str]
    ) -> tuple[list[str], dict[str, str] | None]:
        _, env = super().settings_to_cmd_args_env(settings_dict, [])  # the password
        known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()} - SECRETS
        names = {"dbname": "NAME", "user": "USER", "host": "HOST", "port": "PORT"}
        wanted = settings_dict["OPTIONS"] | {libpq: settings_dict[django] for libpq, django in names.items()}
        conninfo = make_conninfo(**{name: value for name, value in wanted.items() if name in known and value})
        return [cls.executable_name, *parameters, conninfo], env
