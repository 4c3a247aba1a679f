"""The settings that make PostgreSQL log statements with their values, and so numbers and names.

Django's ORM puts values into the text of its statements. Only a superuser may change these settings, for a role or for
the server: docs/personal-data.md has the statements.
"""

from core import db

#: For each setting, the values with which it logs no values.
SILENT = {
    "log_statement": {"none", "ddl"},
    "log_min_duration_statement": {"-1"},
    "log_min_duration_sample": {"-1"},
    "log_transaction_sample_rate": {"0"},
    "log_min_error_statement": {"panic"},
    "log_error_verbosity": {"terse"},  # otherwise DETAIL and CONTEXT: duplicate keys, failing rows, lines of a COPY
    "log_parameter_max_length_on_error": {"0"},
    "auto_explain.log_min_duration": {"-1"},
}


def writes_values() -> list[str]:
    """The names of the settings that make the database log values, for the connected role. Raises django.db's
    errors."""
    rows = db.fetch("SELECT name, setting FROM pg_settings WHERE name = ANY(%s) ORDER BY name", [list(SILENT)])
    return [name for name, setting in rows if setting not in SILENT[name]]
