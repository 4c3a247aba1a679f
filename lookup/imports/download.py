"""Downloads one published file to disk: conditional, resumed after an interruption, limited in size and time.

The body is stored as it was sent, plain or gzip: `files.open_text` reads both.
"""

import gzip
import hashlib
import json
import re
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import requests
import urllib3
from django.conf import settings

from lookup.imports.checked_session import checked_session
from lookup.imports.readers.base import UnreadableFile
from lookup.vendors.addresses import AddressNotAllowed, AddressPolicy

CONNECT_TIMEOUT_S, READ_TIMEOUT_S = 10.0, 60.0
#: Of one attempt, however slowly its body arrives.
ATTEMPT_TIMEOUT_S = 3600.0
ATTEMPTS = 4
#: Before the second attempt; doubled before each further one.
RETRY_WAIT_S = 2.0
#: A server that asks for a longer wait (Retry-After) has failed.
MAX_RETRY_AFTER_S = 120.0
#: Of an ETag or Last-Modified: what Dataset.version can hold.
MAX_VALIDATOR = 64

_CHUNK_BYTES = 256 * 1024
_TRANSIENT = (408, 425, 429, 500, 502, 503, 504)
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-[0-9]{1,18}/([0-9]{1,18})")


class DownloadFailed(Exception):
    """The server did not supply the file. The message is for operators: no URL and no credentials."""


class NotPublished(DownloadFailed):
    """The server has no such file."""


class _Transient(Exception):
    """Worth another attempt; after `wait_s` seconds, if the server said so."""

    def __init__(self, message: str, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class Download:
    """A file to download to `path`. `partial`: keeps an incomplete body for the next attempt, or the next run.
    `validator`: ETag or Last-Modified of the version that is already loaded, or empty. `headers`: may hold credentials;
    `requests` sends no Authorization to another host. `progress`: called with bytes done and total, None if unknown."""

    url: str = field(repr=False)
    path: Path
    partial: Path
    address_policy: AddressPolicy
    headers: Mapping[str, str] = field(repr=False, default_factory=dict)
    validator: str = ""
    progress: Callable[[int, int | None], None] = lambda done, total: None

    def run(self) -> str | None:
        """Return the validator of the file that is now at `path`, empty if it has none; None if it has not changed, and
        nothing is there.

        Raises NotPublished (404); DownloadFailed after ATTEMPTS, or at once where another one is useless;
        UnreadableFile for a web page, a damaged gzip file, or more than REFRESH_MAX_MB, packed or unpacked; OSError of
        the disk.
        """
        attempt, wait_s = 1, RETRY_WAIT_S
        while True:
            try:
                with checked_session(self.url, self.address_policy) as session:
                    return self._attempt(session)
            except _Transient as error:
                pause_s = wait_s if error.wait_s is None else error.wait_s
                if pause_s > MAX_RETRY_AFTER_S:
                    raise DownloadFailed(f"{error} and asks to wait {pause_s:,.0f} s") from None
                if attempt == ATTEMPTS:
                    raise DownloadFailed(f"{error}, {ATTEMPTS} times") from None
            except UnreadableFile:
                self._discard()
                raise
            time.sleep(pause_s)
            attempt, wait_s = attempt + 1, wait_s * 2

    def _attempt(self, session: requests.Session) -> str | None:
        done, validator = self._resumable()
        headers = {"User-Agent": "Mozilla/5.0 (compatible; CallerID)", "Accept-Encoding": "gzip", **self.headers}
        if done:
            headers |= {"Range": f"bytes={done}-", "If-Range": validator, "Accept-Encoding": "identity"}
        elif self.validator:
            headers["If-None-Match" if _is_etag(self.validator) else "If-Modified-Since"] = self.validator
        with self._get(session, headers) as response:
            if response.status_code == 304 and self.validator and not done:
                return None
            self._require_file(response)
            try:
                self._store(response, done)
            except urllib3.exceptions.HTTPError:
                raise _Transient("the server closed the connection too early") from None
        _require_sound(self.partial)
        self.partial.replace(self.path)
        self._discard()
        return next((value for value in _validators(response) if len(value) <= MAX_VALIDATOR), "")

    def _get(self, session: requests.Session, headers: Mapping[str, str]) -> requests.Response:
        try:
            return session.get(self.url, headers=headers, stream=True, timeout=(CONNECT_TIMEOUT_S, READ_TIMEOUT_S))
        except AddressNotAllowed:
            raise DownloadFailed("the server, or a redirect, leads to an address that is not allowed") from None
        except (requests.TooManyRedirects, ValueError):  # ValueError: an invalid URL, or a scheme other than HTTP
            raise DownloadFailed("the server redirects too often, or to an invalid address") from None
        except requests.exceptions.SSLError:
            raise DownloadFailed("the server's TLS certificate or handshake was rejected") from None
        except requests.RequestException:
            raise _Transient("the server could not be reached, or did not answer") from None

    def _require_file(self, response: requests.Response) -> None:
        """Raises unless the response is a file, or a part of one."""
        status = response.status_code
        if status in _TRANSIENT:
            raise _Transient(f"the server answered {status}", _retry_after_s(response))
        if status == 416:
            self._discard()
            raise _Transient("the server cannot continue the file", 0)
        if status in (404, 410):
            raise NotPublished(f"the server has no such file ({status})")
        if status in (401, 403):
            raise DownloadFailed(f"the server refused access ({status})")
        if status not in (200, 206):
            raise DownloadFailed(f"the server answered {status} instead of a file")
        if response.headers.get("Content-Type", "").lower().startswith(("text/html", "application/xhtml")):
            raise UnreadableFile("the server sent a web page instead of the file")
        if response.headers.get("Content-Encoding", "").lower() not in ("", "identity", "gzip"):
            raise UnreadableFile("the server sent an encoding that was not requested")

    def _store(self, response: requests.Response, done: int) -> None:
        """Write the body to `partial`, after the `done` bytes there if it continues them."""
        total: int | None = None
        if response.status_code == 206:
            part = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
            if not done or not part or int(part[1]) != done or "Content-Encoding" in response.headers:
                self._discard()
                raise _Transient("the server sent another part of the file", 0)
            total = int(part[2])
        else:
            done, length = 0, response.headers.get("Content-Length", "")
            total = int(length) if re.fullmatch("[0-9]{1,18}", length) else None
            self._discard()
            self._allow_resuming(response)
        _require_size(total or 0)
        deadline = time.monotonic() + ATTEMPT_TIMEOUT_S
        with self.partial.open("ab") as file:
            # read1 returns what has arrived; read(n) would wait for n bytes, however slowly they come.
            while chunk := response.raw.read1(_CHUNK_BYTES):
                file.write(chunk)
                done += len(chunk)
                _require_size(done)
                self.progress(done, total)
                if time.monotonic() > deadline:
                    raise DownloadFailed(f"the file did not arrive within {ATTEMPT_TIMEOUT_S:,.0f} s")
        if total is not None and done != total:
            raise _Transient("the server closed the connection too early")

    # --- The incomplete file --------------------------------------------------------------------------------------

    @property
    def _resume_path(self) -> Path:
        return self.partial.with_name(f"{self.partial.name}.json")

    def _allow_resuming(self, response: requests.Response) -> None:
        """Note the validator with which the file may be continued: a strong ETag, or else Last-Modified (RFC 9110,
        13.1.5). A body that the server has compressed may differ each time, so it is not continued."""
        validator = next(_validators(response), "")
        if validator and not validator.startswith("W/") and "Content-Encoding" not in response.headers:
            self._resume_path.write_text(json.dumps({"url": self._url_hash, "validator": validator}), encoding="utf-8")

    def _resumable(self) -> tuple[int, str]:
        """The bytes at `partial` that this URL may continue, and their validator."""
        try:
            noted = json.loads(self._resume_path.read_text(encoding="utf-8"))
            if noted["url"] == self._url_hash:
                return self.partial.stat().st_size, noted["validator"]
        except (FileNotFoundError, ValueError, KeyError):
            pass
        return 0, ""

    @property
    def _url_hash(self) -> str:
        return hashlib.sha256(self.url.encode()).hexdigest()

    def _discard(self) -> None:
        for path in (self._resume_path, self.partial):
            path.unlink(missing_ok=True)


def _is_etag(validator: str) -> bool:
    return validator.startswith(('"', 'W/"'))


def _validators(response: requests.Response) -> Iterator[str]:
    """The response's ETag and Last-Modified, those that it has and that can be sent back."""
    etag, modified = (response.headers.get(name, "") for name in ("ETag", "Last-Modified"))
    given = (etag if _is_etag(etag) else "", modified)
    return (value for value in given if value and value.isascii() and value.isprintable())


def _retry_after_s(response: requests.Response) -> float | None:
    """The seconds of Retry-After, a number or a date; None if there is none that can be read."""
    try:
        return urllib3.Retry(retry_after_max=10**9).get_retry_after(response.raw)
    except (urllib3.exceptions.InvalidHeader, ValueError, OverflowError):
        return None


def _require_size(size: int) -> None:
    if size > settings.REFRESH_MAX_MB * 2**20:
        raise UnreadableFile(f"the file is larger than {settings.REFRESH_MAX_MB:,} MB (REFRESH_MAX_MB)")


def _require_sound(path: Path) -> None:
    """Raises UnreadableFile if the file is gzip, and is incomplete, damaged, or too large when unpacked."""
    with path.open("rb") as file:
        if file.read(2) != b"\x1f\x8b":
            return
    size = 0
    try:
        with gzip.open(path) as unpacked:
            while chunk := unpacked.read(_CHUNK_BYTES):
                size += len(chunk)
                _require_size(size)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise UnreadableFile("the server sent a damaged or truncated gzip file") from None
