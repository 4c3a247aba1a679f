"""quickstart on a migrated database: what it creates, repairs and leaves unchanged."""

import os
import stat
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import authenticate, get_user_model
from django.core.management import CommandError, call_command

from accounts import audit, credits, tokens
from accounts.models import ApiToken
from phonebook.imports.numbering_plan import NUMBERING_PLAN, installed_version
from phonebook.models import Contact, Country, Dataset
from tests import awaited
from tests.plugin import ROOT

pytestmark = [pytest.mark.django_db, pytest.mark.once]


@pytest.fixture(autouse=True)
def data_dir(tmp_path: Path, settings: Any) -> Path:
    """The embedded profile, with the numbering plan marked as loaded: loading it takes seconds."""
    settings.EMBEDDED, settings.DATA_DIR = True, tmp_path
    Dataset.objects.create(name=NUMBERING_PLAN, version=installed_version(), rows=0)
    Country.objects.create(code="DE", name="Germany")  # a plan without countries is loaded again
    return tmp_path


def quickstart() -> str:
    out = StringIO()
    call_command("quickstart", stdout=out)
    return out.getvalue()


def test_quickstart_creates_what_is_missing_once(data_dir: Path) -> None:
    said = quickstart()
    kept = data_dir / "demo_token"
    token = awaited.verify(kept.read_text().strip())
    assert token.credits == 1_000
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert kept.read_text().strip() not in said
    password = said.partition("with the password ")[2].split()[0]
    user = authenticate(username="admin", password=password)
    assert user is not None
    assert user.is_superuser
    assert Contact.objects.exists()

    assert quickstart() == "Everything is up to date.\n"
    assert ApiToken.objects.count() == 1
    assert get_user_model().objects.count() == 1


def stored(file: Path) -> ApiToken:
    return ApiToken.objects.get(pk=awaited.verify(file.read_text().strip()).pk)


def test_an_invalid_demo_token_is_replaced(data_dir: Path) -> None:
    quickstart()
    kept = data_dir / "demo_token"
    for spoil in (
        lambda: tokens.revoke(token=stored(kept)),
        lambda: kept.write_text("eyJ.not.ours"),
        lambda: kept.write_bytes(b"\xff"),
        kept.unlink,
    ):
        spoil()
        assert quickstart().startswith("Issued a demo token with 1,000 credits")
        assert awaited.verify(kept.read_text().strip()).credits == 1_000
        assert quickstart() == "Everything is up to date.\n"


def test_a_demo_token_without_credits_gets_more(data_dir: Path) -> None:
    quickstart()
    token = stored(data_dir / "demo_token")
    credits.adjust(token=token, amount=-1_000, actor="test", reason="spent")
    assert quickstart() == "Added 1,000 credits to the demo token.\n"
    token.refresh_from_db()
    assert token.credits == 1_000
    assert audit.audit() == []


def test_no_token_is_issued_if_it_cannot_be_stored(data_dir: Path) -> None:
    (data_dir / "demo_token").mkdir()
    with pytest.raises(CommandError, match="Cannot use the data directory"):
        quickstart()
    assert not ApiToken.objects.exists()


def test_existing_users_are_left_unchanged(data_dir: Path) -> None:
    users = get_user_model().objects
    users.create_user("admin", password="someone else")
    assert "./run manage createsuperuser" in quickstart()
    users.create_superuser("root", password="the operator")
    assert quickstart() == "Everything is up to date.\n"
    assert users.count() == 2
    assert not users.get(username="admin").is_superuser


def test_production_gets_no_demo_token_no_samples_and_no_user(data_dir: Path, settings: Any) -> None:
    settings.EMBEDDED = False
    assert quickstart() == "Everything is up to date.\n"
    assert not ApiToken.objects.exists()
    assert not Contact.objects.exists()
    assert not get_user_model().objects.exists()
    assert not list(data_dir.iterdir())


@pytest.mark.slow
def test_concurrent_quickstarts_run_one_after_the_other(tmp_path: Path) -> None:
    environment = {**os.environ, "CALLERID_DATA_DIR": str(tmp_path / "var"), "DATABASE_URL": "", "REDIS_URL": ""}
    running = [
        subprocess.Popen(
            [sys.executable, "manage.py", "quickstart"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    said = [process.communicate(timeout=120)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert sum("Everything is up to date." in text for text in said) == 2
