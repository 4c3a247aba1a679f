"""The check of published complaints: they are loaded, and not old."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from contrib.file_formats.checks import COMPLAINT_DATA
from monitoring.health.registry import Result
from phonebook.models import Dataset

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 9, 14, 20, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _complaints(settings: Any) -> None:
    settings.SOURCE_B, settings.REFRESH_SOURCES = "complaints", ["ftc", "fcc"]


def installed(days_ago: int) -> None:
    MigrationRecorder.Migration.objects.update(applied=timezone.now() - timedelta(days=days_ago))


def result() -> Result:
    found = COMPLAINT_DATA.result()
    assert found
    return found


def test_a_new_installation_may_wait_for_its_first_download() -> None:
    installed(0)
    assert (result().healthy, result().detail) == (True, "No published data is loaded. Not downloaded yet: fcc, ftc.")
    installed(3)
    assert not result().healthy
    assert "Complaint data is stale: fcc. It was never loaded." in result().detail


def test_old_and_missing_data_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timezone, "now", lambda: NOW)
    installed(3)
    Dataset.objects.create(name="complaints ftc", version="2026-02-20", rows=1, loaded_at=NOW)
    assert "Complaint data is stale: ftc. The newest data is 17 days old." in result().detail
    Dataset.objects.update(version="2026-03-08")
    assert "ftc" not in result().detail.partition("fcc. It was never loaded.")[0]
    Dataset.objects.create(name="complaints fcc", version="2026-03-02", rows=1, loaded_at=NOW)
    assert (result().healthy, result().detail) == (True, "Age in days: ftc 1, fcc 7.")


def test_data_that_no_source_uses_is_not_checked(settings: Any) -> None:
    installed(3)
    settings.SOURCE_B = "tests.connectors.Knows"
    assert (result().healthy, result().state) == (True, "not used")
