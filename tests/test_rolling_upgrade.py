"""A service goes on while its database is migrated for the next version, and works with that schema."""

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
import requests
from django.db.migrations.loader import MigrationLoader

from tests.load import Load
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow]

ROWS = 200_000
FILL = f"""
INSERT INTO accounts_creditentry
    (token_id, amount, balance_after, kind, request_id, reference, reason, actor, created_at)
SELECT (SELECT min(id) FROM accounts_apitoken), -1, {ROWS} - n, 'search', 'filled-' || n, '', '', '', now()
FROM generate_series(1, {ROWS}) AS n
"""
STUB = """
from importlib import import_module

Migration = import_module("accounts.migrations.{name}").Migration
"""
FURTHER = {
    "9998_column": """
from django.db import migrations, models

class Migration(migrations.Migration):
    dependencies = [("accounts", "{last}")]
    operations = [migrations.AddField("creditentry", "further", models.CharField(max_length=9, null=True))]
""",
    "9999_index": """
from django.db import migrations, models
from core.migration_operations import AddIndexConcurrently

class Migration(migrations.Migration):
    atomic = False
    dependencies = [("accounts", "9998_column")]
    operations = [
        AddIndexConcurrently("creditentry", models.Index(fields=["further", "created_at"], name="ledger_further")),
    ]
""",
}
SETTINGS = """
from callerid_project.settings import *

MIGRATION_MODULES = {"accounts": "next_version"}
"""


def write_next_version(directory: Path) -> dict[str, str]:
    """The environment of a version with two migrations more: the ledger gets a column, and an index."""
    real = sorted(name for app, name in MigrationLoader(None).disk_migrations if app == "accounts")
    package = directory / "next_version"
    package.mkdir()
    files = {"__init__": ""}
    files |= {name: STUB.format(name=name) for name in real}
    files |= {name: text.format(last=real[-1]) for name, text in FURTHER.items()}
    for name, text in files.items():
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    (directory / "next_settings.py").write_text(SETTINGS, encoding="utf-8")
    return {"DJANGO_SETTINGS_MODULE": "next_settings", "PYTHONPATH": str(directory)}


def test_migration_under_load_fails_no_request(
    serve: Callable[..., Service], postgres_url: str, redis_url: str, tmp_path: Path
) -> None:
    service = serve(DATABASE_URL=postgres_url, REDIS_URL=redis_url, RATE_LIMIT="1000000/m")
    load = Load(service, keep_alive=3, rate=150)
    present = dict(service.env)
    upgraded = {**present, **write_next_version(tmp_path)}
    with psycopg.connect(postgres_url, autocommit=True) as database:
        database.execute(FILL)
        with load:
            # A transaction that has read the ledger: if the migration waited for it, searches would wait behind both.
            with psycopg.connect(postgres_url) as reader:
                reader.execute("SELECT max(id) FROM accounts_creditentry")
                service.env = upgraded
                with pytest.raises(RuntimeError, match=r"A transaction has held a lock .* for 200 ms"):
                    service.manage("migrate")
                load.more(20)
            service.manage("migrate")
            # An attempt that was interrupted at the index is repeated.
            database.execute("DELETE FROM django_migrations WHERE name = '9999_index'")
            service.manage("migrate")
            load.more(20)
        valid = database.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = 'ledger_further'::regclass")
        assert valid.fetchone() == (True,)
        assert load.failures() == []
        service.env = present
        assert load.debits() == len(load.answers)
        # The present version on the newer schema: it is ready, and a command that fails says why.
        assert requests.get(f"{service.url}/readyz", timeout=30).status_code == 200
        service.manage("create_token", "older", "--credits", "5")
        database.execute("ALTER TABLE accounts_apitoken ADD COLUMN required integer NOT NULL DEFAULT 1")
        database.execute("ALTER TABLE accounts_apitoken ALTER COLUMN required DROP DEFAULT")
        with pytest.raises(RuntimeError, match=r"migrated by a newer version \(accounts.9998_column, accounts.9999_i"):
            service.manage("create_token", "older", "--credits", "5")
