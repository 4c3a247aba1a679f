"""The service with the serving role of deploy/postgresql/grants.sql: it works, and cannot harm the ledger."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
import requests
from psycopg import errors, sql

from tests import plugin
from tests.servers import fresh_database
from tests.service import LONG_TIMEOUTS, Service

NUMBER = "493023125042"
PASSWORD = "the right one"

pytestmark = [pytest.mark.once, pytest.mark.slow]


def grants(names: dict[str, str]) -> str:
    """deploy/postgresql/grants.sql for the roles `names`."""
    text = (plugin.ROOT / "deploy" / "postgresql" / "grants.sql").read_text(encoding="utf-8")
    return re.sub(r"callerid_(serving|readonly)", lambda role: names[role[1]], text)


@dataclass(frozen=True)
class Roles:
    """The service under the serving role, to be started; the others: a database URL for each role."""

    service: Service
    owner: str
    serving: str
    readonly: str


@pytest.fixture
def roles(_postgres_server_url: str, redis_url: str, tmp_path: Path) -> Iterator[Roles]:
    names = {kind: f"callerid_{kind}_{uuid4().hex[:8]}" for kind in ("owner", "serving", "readonly")}
    secret = uuid4().hex
    with psycopg.connect(_postgres_server_url, autocommit=True) as server:
        for name in names.values():
            server.execute(
                sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(name), sql.Literal(secret))
            )
        try:
            with fresh_database(_postgres_server_url) as url:
                owner, serving, readonly = (
                    re.sub(r"(?<=://)([^@/]*@)?", f"{name}:{secret}@", url, count=1) for name in names.values()
                )
                database = url.partition("?")[0].rpartition("/")[2]
                change = sql.SQL("ALTER DATABASE {} OWNER TO {}")
                server.execute(change.format(sql.Identifier(database), sql.Identifier(names["owner"])))
                environment = {
                    **LONG_TIMEOUTS,
                    **plugin.generated_keys(),
                    "REDIS_URL": redis_url,
                    "TRUSTED_PROXIES": "1",
                }
                Service(tmp_path, {**environment, "DATABASE_URL": owner}).manage("migrate", "--verbosity=0")
                with psycopg.connect(owner, autocommit=True) as connection:
                    connection.execute(grants(names).encode())
                service = Service(tmp_path, {**environment, "DATABASE_URL": serving})
                try:
                    yield Roles(service, owner, serving, readonly)
                finally:
                    service.kill()
        finally:
            for name in names.values():
                server.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def logged_in(service: Service) -> Callable[..., requests.Response]:
    """`post(path, **fields)` as a superuser, with the hidden fields of that page or of `form`'s."""
    script = f"from django.contrib.auth.models import User; User.objects.create_superuser('boss', '', {PASSWORD!r})"
    service.manage("shell", "--no-imports", "-c", script)
    cookies: dict[str, str] = {}

    def send(method: str, path: str, **fields: str) -> requests.Response:
        """As through a TLS proxy: requests itself would not send a secure cookie to an http URL."""
        headers = {
            "Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items()),
            "X-Forwarded-For": "192.0.2.1",
            "X-Forwarded-Proto": "https",
            "Referer": service.url.replace("http:", "https:") + path,
        }
        url = service.url + path
        answer = requests.request(method, url, data=fields, headers=headers, timeout=60, allow_redirects=False)
        answer.raise_for_status()
        cookies.update(answer.cookies.get_dict())
        return answer

    def post(path: str, form: str | None = None, **fields: str) -> requests.Response:
        hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]+)"', send("GET", form or path).text))
        return send("POST", path, **{**hidden, **fields})

    post("/admin/login/", username="boss", password=PASSWORD)
    return post


def count(url: str, table: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))).fetchone()
    assert row is not None
    return int(row[0])


def test_the_service_works_with_the_serving_role(roles: Roles) -> None:
    service = roles.service.start()
    made = json.loads(service.manage("create_token", "pbx", "--credits", "5", "--json"))
    asked = {"api_key": made["api_key"], "query": NUMBER}
    for key in ({}, {"Idempotency-Key": "k"}):
        answer = requests.post(f"{service.url}/callerid/search", json=asked, headers=key, timeout=60)
        assert answer.status_code == 200, answer.text
    post = logged_in(service)
    page = f"/admin/accounts/apitoken/{made['id']}/top-up/"
    assert post(page, amount="7", reason="paid").status_code == 302
    service.manage("create_customer", "Example Ltd")
    other = json.loads(service.manage("create_token", "till", "--credits", "0", "--customer", "Example Ltd", "--json"))
    page = f"/admin/accounts/apitoken/{made['id']}/edit/"
    assert post(page, name="pbx", rate_limit="99", customer="Example Ltd").status_code == 302
    service.manage("transfer_credits", str(made["id"]), str(other["id"]), "3", "--note", "closed")
    rows = json.loads(service.manage("list_tokens", "--json"))
    assert [(row["credits"], row["rate_limit"]) for row in rows] == [(7, 99), (3, None)]
    assert post("/admin/phonebook/numberrule/add/", number=NUMBER, spam="true", name="", note="").status_code == 302
    exported = post("/admin/accounts/creditentry/export/", form="/admin/accounts/creditentry/").text
    assert exported.count("\r\n") == 8
    service.manage("set_rule", NUMBER, "--spam", "no")
    service.manage("rotate_token", str(made["id"]))
    with psycopg.connect(roles.owner) as owner:  # an entry of a version that did not mask numbers
        owner.execute(
            "UPDATE django_admin_log SET object_repr = %s WHERE id = (SELECT max(l.id) FROM django_admin_log l "
            "JOIN django_content_type c ON c.id = l.content_type_id WHERE c.model = 'numberrule')",
            [f"{NUMBER} spam"],
        )
    forgotten = json.loads(service.manage("forget", NUMBER, "--json"))
    assert (forgotten["ledger_entries"], forgotten["admin_entries"]) == (2, 1)
    with psycopg.connect(roles.owner) as owner:
        owner.execute("UPDATE accounts_idempotencyrecord SET created_at = '2000-01-01'")
    assert json.loads(service.manage("prune", "--json"))["idempotency_records"] == 1
    assert json.loads(service.manage("audit_credits", "--json")) == {"disagreements": []}
    assert service.stop() == 0  # an orderly end writes the statistics
    assert count(roles.owner, "accounts_searchhour") >= 1
    assert "permission denied" not in service.log()


FORBIDDEN = [
    "TRUNCATE accounts_creditentry CASCADE",
    "TRUNCATE accounts_apitoken CASCADE",
    "ALTER TABLE accounts_creditentry DISABLE TRIGGER ALL",
    "ALTER TABLE accounts_creditentry DISABLE TRIGGER accounts_creditentry_append_only",
    "DROP TRIGGER accounts_creditentry_no_truncate ON accounts_creditentry",
    "DROP FUNCTION accounts_creditentry_append_only() CASCADE",
    """CREATE OR REPLACE FUNCTION accounts_creditentry_append_only() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RETURN NEW; END $$""",
    "CREATE TABLE mine (id int)",
    "SET session_replication_role = replica",
    "UPDATE accounts_creditentry SET amount = 99",
    "DELETE FROM accounts_creditentry",
    "DELETE FROM accounts_apitoken",
    "DELETE FROM django_admin_log",
    *(
        f"UPDATE django_admin_log SET {column} = {column}"
        for column in ("id", "action_time", "user_id", "content_type_id", "action_flag", "change_message")
    ),
    "ALTER TABLE accounts_creditentry RENAME TO elsewhere",
    "DROP TABLE accounts_creditentry CASCADE",
]


def test_the_serving_role_cannot_harm_the_ledger(roles: Roles) -> None:
    permitted = []
    with psycopg.connect(roles.serving, autocommit=True) as connection:
        for statement in FORBIDDEN:
            try:
                connection.execute(statement)
            except errors.InsufficientPrivilege:
                continue
            permitted.append(statement)
    assert permitted == []


def test_owner_cannot_truncate_readonly_reads_no_secrets(roles: Roles) -> None:
    with psycopg.connect(roles.owner, autocommit=True) as connection:
        for table in ("accounts_creditentry", "accounts_apitoken"):
            with pytest.raises(errors.RestrictViolation, match="append-only"):
                connection.execute(sql.SQL("TRUNCATE {} CASCADE").format(sql.Identifier(table)))
    with psycopg.connect(roles.readonly, autocommit=True) as connection:
        for table in ("accounts_creditentry", "accounts_searchhour", "monitoring_sourcehour"):
            connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(table)))
        connection.execute("SELECT name, credits FROM accounts_apitoken")
        for forbidden in (
            "SELECT * FROM accounts_apitoken",
            "SELECT * FROM auth_user",
            "SELECT * FROM django_session",
            "SELECT * FROM otp_totp_totpdevice",
            "SELECT * FROM phonebook_contact",
            "DELETE FROM accounts_searchhour",
        ):
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(forbidden.encode())
