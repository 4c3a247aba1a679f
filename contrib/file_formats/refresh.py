"""Refreshes the complaints of the FTC, the FCC and PhoneBlock: downloads what is new there, and imports it.

The table of data sets records what was imported: a row for each file of the FTC, one for the FCC's file with its
validator and number of rows, and PhoneBlock's list with its version. What fails changes nothing and is tried again by
the next run. A downloaded file, which contains complainants' places, is deleted after its import.
"""

import fcntl
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

from django.conf import settings
from django.db import Error as DatabaseFailure
from django.db import close_old_connections

from contrib.file_formats.download import DownloadFailed, NotPublished, download
from core.addresses import policy_for
from core.database_errors import describe
from phonebook.imports import data_sets
from phonebook.imports.complaints import ComplaintImport
from phonebook.imports.files import open_text
from phonebook.imports.pipeline import TransferResult
from phonebook.imports.readers.base import UnreadableFile
from phonebook.models import Dataset

FTC_URL = "https://www.ftc.gov/sites/default/files/DNC_Complaint_Numbers_{day}.csv"
FCC_URL = "https://opendata.fcc.gov/api/views/vakf-fz8e/rows.csv?accessType=DOWNLOAD"
PHONEBLOCK_URL = "https://phoneblock.net/phoneblock/api/blocklist?format=json"
PHONEBLOCK_TOKEN = "PHONEBLOCK_TOKEN"  # noqa: S105 (the variable's name)
#: Refreshed unless REFRESH_SOURCES names others: those that need no account.
DEFAULT_SOURCES = ("ftc", "fcc")
#: The FTC publishes a file on weekdays and keeps it for about five weeks.
FTC_KEPT_DAYS = 35
#: It has failed if it publishes none for this long, holidays included.
FTC_SILENT_DAYS = 7
#: A file of the FTC has at least half of the rows of the smallest of so many before it.
FTC_COMPARED_FILES = 5
#: Of files that the server does not supply; the others are not requested then.
MAX_UNAVAILABLE = 3
# Names of data sets; the day of the file follows.
_FTC_FILE, _FCC_FILE = "file ftc ", "file fcc"


class AlreadyRunning(Exception):
    """Another process refreshes with the same data directory."""


@contextmanager
def refresh_lock() -> Iterator[Path]:
    """The directory of downloads, for this process alone. Raises AlreadyRunning, and OSError if it cannot be used."""
    directory = settings.DATA_DIR / "downloads"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600), "rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning from None
        yield directory


def refresh(
    sources: Iterable[str], *, today: date, full: bool = False, allow_loss: bool = False
) -> Iterator[tuple[str, TransferResult]]:
    """Refresh the sources (names of conf.SOURCES) one after the other, and yield each one's result.

    `today`: in UTC. `full`: get PhoneBlock's whole list instead of its changes. `allow_loss`: as for ComplaintImport.
    A source that fails does not affect the others. Raises AlreadyRunning, and OSError, before the first source.
    """
    with refresh_lock() as directory:
        for source in sources:
            yield source, _Refresher(source, directory, today, full, allow_loss).run()


@dataclass(slots=True)
class _Refresher:
    source: str
    directory: Path
    today: date
    full: bool
    allow_loss: bool
    result: TransferResult = field(default_factory=TransferResult)

    def run(self) -> TransferResult:
        steps = {"ftc": self._ftc, "fcc": self._fcc, "phoneblock": self._phoneblock}
        try:
            steps[self.source]()
        except (DownloadFailed, UnreadableFile) as error:
            self.result.errors.append(str(error))
        except OSError as error:
            self.result.errors.append(f"{error.filename or 'a file'}: {error.strerror or type(error).__name__}")
        except DatabaseFailure as error:
            self.result.errors.append(f"database: {describe(error)}")
            close_old_connections()  # the next source may need a new one
        return self.result

    def _ftc(self) -> None:
        """Import the files of the weekdays that have not been imported."""
        since = self.today - timedelta(days=min(FTC_KEPT_DAYS, settings.COMPLAINT_KEPT_DAYS) - 1)
        rows = dict(Dataset.objects.filter(name__startswith=_FTC_FILE).values_list("name", "rows"))
        Dataset.objects.filter(name__in=[name for name in rows if name < f"{_FTC_FILE}{since}"]).delete()
        unavailable = 0
        for day in (since + timedelta(days=days) for days in range((self.today - since).days + 1)):
            name = f"{_FTC_FILE}{day}"
            if day.weekday() > 4 or name in rows:
                continue
            before = [rows[earlier] for earlier in sorted(rows) if earlier < name and rows[earlier]]
            expected = min(before[-FTC_COMPARED_FILES:], default=0)
            url = self._url(FTC_URL).replace("{day}", str(day))
            try:
                rows[name] = self._import(url, name=name, expected_rows=expected)
            except NotPublished:
                continue
            except UnreadableFile as error:
                self.result.errors.append(f"{day}: {error}")  # the other days' files may be good
            except DownloadFailed as error:
                self.result.errors.append(f"{day}: {error}")
                unavailable += 1
                if unavailable == MAX_UNAVAILABLE:
                    return  # it is the server
        silent_since = self.today - timedelta(days=FTC_SILENT_DAYS)
        if since < silent_since and not self.result.errors and max(rows, default="") < f"{_FTC_FILE}{silent_since}":
            raise DownloadFailed(f"the server has no file of the last {FTC_SILENT_DAYS} days")

    def _fcc(self) -> None:
        """Import the whole table, if it has changed."""
        loaded = Dataset.objects.filter(name=_FCC_FILE).first()
        validator, rows = (loaded.version, loaded.rows) if loaded else ("", 0)
        self._import(self._url(FCC_URL), name=_FCC_FILE, validator=validator, expected_rows=rows)

    def _phoneblock(self) -> None:
        """Import the changes since the loaded version of the list, or the whole list."""
        token = os.environ.get(PHONEBLOCK_TOKEN, "").strip()
        if not token:
            raise DownloadFailed(f"set {PHONEBLOCK_TOKEN} to a token that may download the block list")
        url, version = self._url(PHONEBLOCK_URL), data_sets.loaded_version(data_sets.list_name("phoneblock"))
        full = self.full or version in ("", "0")  # none is loaded, or it had no version
        if not full:
            url += f"{'&' if '?' in url else '?'}since={version}"
        self._import(url, headers={"Authorization": f"Bearer {token}"}, full=full)

    def _url(self, published: str) -> str:
        return getattr(settings, f"REFRESH_{self.source.upper()}_URL") or published

    def _import(
        self,
        url: str,
        *,
        name: str = "",
        validator: str = "",
        expected_rows: int = 0,
        headers: Mapping[str, str] | None = None,
        full: bool = False,
    ) -> int:
        """Download and import one file, and record it as the data set `name`, if given. Returns the number of its valid
        rows, or 0 if it has not changed."""
        path = self.directory / self.source
        # An operator's own URL may be in the own network.
        policy = policy_for(url, private_network=bool(self._url("")))
        try:
            new_validator = download(url, path, address_policy=policy, headers=headers, validator=validator)
            if new_validator is None:
                return 0
            imported = ComplaintImport(
                today=self.today,
                on_reject=lambda name, row: None,
                format_name=self.source,
                full=full,
                allow_loss=self.allow_loss,
                # `prune` deletes what is older.
                oldest_day=self.today - timedelta(days=settings.COMPLAINT_KEPT_DAYS - 1),
                expected_rows=expected_rows,
                recorded_as=(name, new_validator) if name else None,
            ).run([open_text(str(path), max_size=settings.REFRESH_MAX_MB * 2**20)])
        finally:
            path.unlink(missing_ok=True)
        self.result.transferred += 1
        for count in ("read", "added", "changed", "unchanged", "removed", "repeated"):
            setattr(self.result, count, getattr(self.result, count) + getattr(imported, count))
        self.result.rejected = dict(Counter(self.result.rejected) + Counter(imported.rejected))
        return imported.read - sum(imported.rejected.values())
