"""Which settings make PostgreSQL write statements with their values, and so numbers and names, into its own log.

Django's ORM puts values into the statement's text. Only a superuser may change these settings, for a role or for the
server: docs/personal-data.md has the statements.
"""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Tags, Warning, register
from django.db import connections

#: For each setting, the values with which it writes none.
SILENT = {
    "log_statement": {"none", "ddl"},
    "log_min_duration_statement": {"-1"},
    "log_min_duration_sample": {"-1"},
    "log_transaction_sample_rate": {"0"},
    "log_min_error_statement": {"panic"},
    "log_error_verbosity": {"terse"},  # or DETAIL and CONTEXT: duplicate keys, failing rows, lines of a COPY
    "log_parameter_max_length_on_error": {"0"},
    "auto_explain.log_min_duration": {"-1"},
}


def writes_values(alias: str) -> list[str]:
    """The settings that make this database write values into its log, for the role that is connected, by name.

    None on SQLite, which has no log. Raises django.db's errors.
    """
    if connections[alias].vendor != "postgresql":
        return []
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT name, setting FROM pg_settings WHERE name = ANY(%s) ORDER BY name", [list(SILENT)])
        return [name for name, setting in cursor.fetchall() if setting not in SILENT[name]]


@register(Tags.database, deploy=True)
def log_holds_no_values(
    app_configs: Any = None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """For `check --deploy --database default`."""
    return [
        Warning(
            f"PostgreSQL's log may get phone numbers and names in clear: {', '.join(names)}.",
            hint="Let a superuser set what docs/personal-data.md says, under 'PostgreSQL's log'.",
            id="accounts.W001",
        )
        for alias in databases or []
        if (names := writes_values(alias))
    ]
