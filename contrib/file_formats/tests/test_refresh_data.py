"""`refresh_data`: output, exit status, sources."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as chosen
from django.contrib.admin.models import LogEntry

from contrib.file_formats.refresh import refresh_lock
from contrib.file_formats.tests.refreshing import Publishers
from lookup.answers import Found
from lookup.connectors.tables import Complaints
from phonebook.models import ComplaintDay, Dataset, ImportBatch
from tests import awaited
from tests.phonebook.commands.imports import TODAY, Ran
from tests.upstream import raw

pytestmark = pytest.mark.django_db

WEEKDAY = TODAY - timedelta(days=max(0, TODAY.isoweekday() - 5))


def test_all_sources_are_refreshed_and_counted(publishers: Publishers) -> None:
    publishers.publish_ftc(str(WEEKDAY))
    publishers.publish_fcc(TODAY)
    publishers.publish_list(41, {1: 10})
    ran = Ran("refresh_data", "--source", "ftc", "--source", "fcc", "--source", "phoneblock")
    assert (ran.error, ran.err) == (None, "")
    assert ran.out.splitlines() == [
        "ftc: 1 file, 20 rows read, 0 rejected. 20 added.",
        "fcc: 1 file, 20 rows read, 0 rejected. 20 added.",
        "phoneblock: 1 file, 1 rows read, 0 rejected. 1 added.",
    ]
    assert awaited.answer_of(Complaints(), "12125550100") == Found(spam=True)
    assert [entry.change_message for entry in LogEntry.objects.order_by("pk")] == [
        f"Downloaded ({source}): {count} added, 0 changed, 0 unchanged, 0 removed, 0 repeated, 0 rejected."
        for source, count in (("ftc", 20), ("fcc", 20), ("phoneblock", 1))
    ]
    again = Ran("refresh_data")
    assert again.out.splitlines() == ["ftc: nothing new.", "fcc: nothing new."]
    assert LogEntry.objects.count() == 3


def test_failed_source_is_reported_and_the_command_fails(publishers: Publishers) -> None:
    publishers.publish_ftc(str(WEEKDAY))
    publishers.fcc.faults = [raw(b"", 429, "Retry-After: 600\r\n")]
    ran = Ran("refresh_data", "--json")
    assert str(ran.error) == "1 of 2 sources failed."
    assert ran.err == "fcc: the server answered 429 and asks to wait 600 s.\n"
    said = json.loads(ran.out)
    assert (said["ftc"]["transferred"], said["ftc"]["added"], said["ftc"]["errors"]) == (1, 20, [])
    assert (said["fcc"]["transferred"], said["fcc"]["errors"]) == (
        0,
        ["the server answered 429 and asks to wait 600 s"],
    )


def test_configured_sources_are_the_default(publishers: Publishers, settings: Any) -> None:
    settings.REFRESH_SOURCES = ["phoneblock"]
    publishers.publish_list(41, {1: 10})
    assert list(json.loads(Ran("refresh_data", "--json").out)) == ["phoneblock"]
    assert publishers.ftc.requests == publishers.fcc.requests == []


def test_second_run_says_that_another_one_is_running(publishers: Publishers) -> None:
    with refresh_lock():
        ran = Ran("refresh_data")
    assert str(ran.error) == "Another refresh_data is running. Nothing was changed."
    assert publishers.fcc.requests == []


@pytest.mark.skipif("uploads" not in chosen.ADDONS, reason="without the add-on uploads nothing can be undone")
def test_undone_days_can_be_refreshed_again(publishers: Publishers) -> None:
    publishers.publish_ftc(str(WEEKDAY))
    publishers.publish_fcc(TODAY)
    for _ in range(2):
        said = json.loads(Ran("refresh_data", "--json").out)
        assert [said[source]["added"] for source in ("ftc", "fcc")] == [20, 20]
        for batch in ImportBatch.objects.filter(state=ImportBatch.State.DONE).order_by("-finished_at"):
            assert Ran("undo_import", str(batch.pk)).error is None
        assert not ComplaintDay.objects.exists()
        assert not Dataset.objects.exists()
