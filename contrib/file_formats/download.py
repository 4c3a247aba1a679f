"""Downloads one published file to disk: conditional, retried as a whole, limited in size and time.

The body is stored as it was sent, plain or gzip: `files.open_text` reads both, and notices damaged ones.
"""

import time
from collections.abc import Mapping
from pathlib import Path

import requests
from django.conf import settings

from core import http
from core.addresses import AddressPolicy
from core.progress_bar import progress_bar
from phonebook.imports.readers.base import UnreadableFile

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


class DownloadFailed(Exception):
    """The server did not supply the file. The message is for operators: no URL and no credentials."""


class NotPublished(DownloadFailed):
    """The server has no such file."""


def download(
    url: str,
    path: Path,
    *,
    address_policy: AddressPolicy,
    headers: Mapping[str, str] | None = None,
    validator: str = "",
) -> str | None:
    """Download `url` to `path`. Returns the validator of the file that is now there, empty if it has none; None if it
    has not changed, and nothing is there. After an exception, what is there is incomplete.

    `validator`: ETag or Last-Modified of the version that is already loaded, or empty. `headers`: may hold credentials;
    `requests` sends no Authorization to another host. Raises NotPublished (404); DownloadFailed after ATTEMPTS, or at
    once where another one is useless; UnreadableFile for a web page, or more than REFRESH_MAX_MB; OSError of the disk.
    """
    sent = {"User-Agent": "Mozilla/5.0 (compatible; CallerID)", "Accept-Encoding": "gzip", **(headers or {})}
    if validator:
        sent["If-None-Match" if _is_etag(validator) else "If-Modified-Since"] = validator
    for attempt in range(ATTEMPTS):
        try:
            with (
                http.Session(url, address_policy, timeout_s=ATTEMPT_TIMEOUT_S) as session,
                session.request("GET", url, headers=sent, allow_redirects=True) as response,
            ):
                if response.status_code == 304 and validator:
                    return None
                _require_file(response)
                _store(response, path)
                return _validator(response)
        except http.RequestInterrupted as error:
            failure = error
        except http.RequestFailed as error:
            raise DownloadFailed(str(error)) from None
        pause_s = RETRY_WAIT_S * 2**attempt if failure.wait_s is None else failure.wait_s
        if pause_s > MAX_RETRY_AFTER_S:
            raise DownloadFailed(f"{failure} and asks to wait {pause_s:,.0f} s")
        if attempt < ATTEMPTS - 1:
            time.sleep(pause_s)
    raise DownloadFailed(f"{failure}, {ATTEMPTS} times")


def _store(response: requests.Response, path: Path) -> None:
    total = response.raw.length_remaining
    _require_size(total or 0)
    with path.open("wb") as file, progress_bar(desc="downloading", total=total, unit="B", unit_scale=True) as bar:
        for chunk in response.raw.stream(_CHUNK_BYTES, decode_content=False):
            file.write(chunk)
            bar.update(len(chunk))
            _require_size(file.tell())


def _require_file(response: requests.Response) -> None:
    """Raises unless the response is a file."""
    status = response.status_code
    if status in _TRANSIENT:
        raise http.RequestInterrupted(f"the server answered {status}", http.retry_after_s(response.headers))
    if status in (404, 410):
        raise NotPublished(f"the server has no such file ({status})")
    if status in (401, 403):
        raise DownloadFailed(f"the server refused access ({status})")
    if status != 200:
        raise DownloadFailed(f"the server answered {status} instead of a file")
    if response.headers.get("Content-Type", "").lower().startswith(("text/html", "application/xhtml")):
        raise UnreadableFile("the server sent a web page instead of the file")
    if response.headers.get("Content-Encoding", "").lower() not in ("", "identity", "gzip", "x-gzip"):
        raise UnreadableFile("the server sent an encoding that was not requested")


def _is_etag(validator: str) -> bool:
    return validator.startswith(('"', 'W/"'))


def _validator(response: requests.Response) -> str:
    """The response's ETag or else Last-Modified, the first that can be stored and sent back; empty if there is none."""
    etag, modified = (response.headers.get(name, "") for name in ("ETag", "Last-Modified"))
    for value in (etag if _is_etag(etag) else "", modified):
        if 0 < len(value) <= MAX_VALIDATOR and value.isascii() and value.isprintable():
            return value
    return ""


def _require_size(size: int) -> None:
    if size > settings.REFRESH_MAX_MB * 2**20:
        raise UnreadableFile(f"the file is larger than {settings.REFRESH_MAX_MB:,} MB (REFRESH_MAX_MB)")
