"""PostgreSQL's own log contains no phone numbers if it is configured as documented."""

from collections.abc import Callable

import psycopg
import pytest
from psycopg import sql

from tests.servers import PostgresServer
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow]

Serve = Callable[..., Service]
NUMBER = "12025550142"
#: As in docs/personal-data.md.
SETTINGS = {"log_min_error_statement": "panic", "log_error_verbosity": "terse"}


@pytest.mark.parametrize("silent", [False, True], ids=["by default", "as documented"])
def test_failing_statements_leave_no_number_in_the_log(
    serve: Serve, postgres_server: PostgresServer, silent: bool
) -> None:
    """By default it does contain them, hence the check of doctor."""
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        admin.execute("CREATE ROLE callerid LOGIN")
        admin.execute("CREATE DATABASE callerid OWNER callerid")
        for name, value in SETTINGS.items() if silent else ():
            admin.execute(sql.SQL("ALTER ROLE callerid SET {} = {}").format(sql.Identifier(name), value))
    url = f"postgres://callerid@127.0.0.1:{postgres_server.port}/callerid"
    service = serve(DATABASE_URL=url, REDIS_URL="", TRUSTED_PROXIES="1", REQUIRE_2FA="true")
    service.manage("set_rule", NUMBER, "--spam", "no")
    service.env["DB_STATEMENT_TIMEOUT_MS"] = "200"
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE phonebook_numberrule")
        with pytest.raises(RuntimeError, match="statement timeout"):
            service.manage("set_rule", NUMBER, "--spam", "yes")
    with psycopg.connect(url) as other, pytest.raises(psycopg.errors.UniqueViolation):
        other.execute("INSERT INTO phonebook_numberrule SELECT * FROM phonebook_numberrule")
    log = (postgres_server.directory / "log").read_text()
    assert "canceling statement due to statement timeout" in log
    assert "duplicate key value" in log
    assert (NUMBER in log) is not silent

    reported = "in clear text: log_error_verbosity, log_min_error_statement." in service.run_command("doctor").stdout
    assert reported is not silent


@pytest.mark.parametrize(
    ("name", "value"),
    [("log_statement", "all"), ("log_min_duration_statement", "100"), ("log_parameter_max_length_on_error", "-1")],
)
def test_other_settings_that_log_values_are_reported(
    serve: Serve, postgres_server: PostgresServer, name: str, value: str
) -> None:
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        for setting, to in {**SETTINGS, name: value}.items():
            admin.execute(sql.SQL("ALTER ROLE postgres SET {} = {}").format(sql.Identifier(setting), to))
    service = serve(DATABASE_URL=postgres_server.url, REDIS_URL="")
    assert f"in clear text: {name}." in service.run_command("doctor").stdout
