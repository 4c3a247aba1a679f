"""The three publishers on loopback, and their files."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from contrib.file_formats.tests.publisher import Publisher
from phonebook.models import ComplaintDay

TOKEN = "hunter2"
FCC_PATH = "/rows.csv?accessType=DOWNLOAD"
LIST_PATH = "/blocklist?format=json"


@dataclass
class Publishers:
    ftc: Publisher
    fcc: Publisher
    phoneblock: Publisher
    downloads: Path

    def publish_ftc(self, *days: str, numbers: int = 20) -> None:
        """A file for each day, with complaints about so many numbers."""
        for day in days:
            rows = "".join(f"212555{100 + n:04},{day} 00:03:04,Other,N\n" for n in range(numbers))
            header = "Company_Phone_Number,Created_Date,Subject,Recorded_Message_Or_Robocall\n"
            self.ftc.files[f"/{day}.csv"] = (header + rows).encode()

    def publish_fcc(self, *days: date, numbers: int = 20, etag: str = '"1"') -> None:
        """The whole table, with complaints about so many numbers on each day."""
        rows = "".join(f"{day:%m%d}{n},{day:%m/%d/%Y},212-555-{100 + n:04}\n" for day in days for n in range(numbers))
        self.fcc.files[FCC_PATH] = ("Ticket ID,Date of Issue,Caller ID Number\n" + rows).encode()
        self.fcc.etags[FCC_PATH] = etag

    def publish_list(self, version: int, votes: dict[int, int], since: int | None = None) -> None:
        numbers = [{"phone": f"+4930231250{n:02}", "rating": "G_FRAUD", "votes": count} for n, count in votes.items()]
        path = LIST_PATH if since is None else f"{LIST_PATH}&since={since}"
        self.phoneblock.files[path] = json.dumps({"numbers": numbers, "version": version}).encode()


@pytest.fixture
def publishers(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Publishers]:
    settings.DATA_DIR = tmp_path / "data"
    started = [Publisher().start() for _ in range(3)]
    ftc, fcc, phoneblock = started
    settings.REFRESH_FTC_URL = f"{ftc.url}/{{day}}.csv"
    settings.REFRESH_FCC_URL = fcc.url + FCC_PATH
    settings.REFRESH_PHONEBLOCK_URL = phoneblock.url + LIST_PATH
    monkeypatch.setenv("PHONEBLOCK_TOKEN", TOKEN)
    yield Publishers(ftc, fcc, phoneblock, settings.DATA_DIR / "downloads")
    for publisher in started:
        publisher.server.stop()


def stored(source: str) -> dict[str, int]:
    """The number of complaint rows of each day."""
    days = ComplaintDay.objects.filter(source=source).order_by("day").values_list("day", flat=True)
    return {str(day): list(days).count(day) for day in days}
