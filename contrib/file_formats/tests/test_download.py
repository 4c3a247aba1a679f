"""Downloads against a real server: complete or not at all, and limited."""

import gzip
import stat
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
import requests

from contrib.file_formats import download
from contrib.file_formats.download import DownloadFailed, NotPublished
from contrib.file_formats.tests.publisher import CSV, Publisher, chunked, redirect, truncated
from core import http
from phonebook.imports.files import open_text
from phonebook.imports.readers.base import UnreadableFile
from tests.upstream import Behaviour, drips_body, endless, hangs, raw, resets

BODY = b"number,day\n" * 50_000
HTML = raw(b"<html>Sign in</html>", headers="Content-Type: text/html; charset=utf-8\r\n")


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    server = Publisher(files={"/file": BODY}, etags={"/file": '"v1"'}).start()
    yield server
    server.server.stop()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds between attempts, which are not waited for."""
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    return waited


@pytest.fixture
def fetch(publisher: Publisher, tmp_path: Path, pauses: list[float]) -> Callable[..., str | None]:
    def run(path: str = "/file", **given: Any) -> str | None:
        return download.download(publisher.url + path, tmp_path / "file", **{"address_policy": "loopback", **given})

    return run


def left(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_file_is_complete_and_nothing_else_is_left(fetch: Callable[..., Any], tmp_path: Path) -> None:
    assert fetch() == '"v1"'
    assert (tmp_path / "file").read_bytes() == BODY
    assert left(tmp_path) == ["file"]


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip"])
@pytest.mark.parametrize("sent", [BODY, gzip.compress(BODY)], ids=["plain", "packed"])
def test_encoding_of_the_body_is_its_own(
    fetch: Callable[..., Any], publisher: Publisher, tmp_path: Path, encoding: str, sent: bytes
) -> None:
    publisher.faults = [raw(sent, headers=f"{CSV}Content-Encoding: {encoding}\r\n")]
    fetch()
    with open_text(str(tmp_path / "file")) as file:
        assert "".join(file.lines).encode() == BODY


def test_unchanged_file_is_not_sent_again(fetch: Callable[..., Any], publisher: Publisher, tmp_path: Path) -> None:
    assert fetch(validator='"v1"') is None
    assert left(tmp_path) == []
    publisher.etags["/file"] = '"v2"'
    assert fetch(validator='"v1"') == '"v2"'


def test_last_modified_is_the_validator_without_a_short_etag(fetch: Callable[..., Any], publisher: Publisher) -> None:
    modified = "Sat, 21 Nov 2026 12:00:00 GMT"
    for etag in ("", f'ETag: "{"x" * 70}"\r\n', "ETag: unquoted\r\n", 'ETag: "\x01"\r\n'):
        publisher.faults.append(raw(BODY, headers=f"{CSV}{etag}Last-Modified: {modified}\r\n"))
        assert fetch() == modified
    publisher.faults.append(raw(b"", 304))
    assert fetch(validator=modified) is None
    assert publisher.sent(-1, "If-Modified-Since") == modified


@pytest.mark.parametrize("fault", [raw(b"", 500), raw(b"", 503), resets, chunked(BODY, end=b""), truncated(BODY, 9)])
def test_transient_failures_are_retried_with_growing_pauses(
    fetch: Callable[..., Any], publisher: Publisher, tmp_path: Path, pauses: list[float], fault: Behaviour
) -> None:
    publisher.faults = [fault] * 3
    fetch()
    assert (tmp_path / "file").read_bytes() == BODY
    assert pauses == [2, 4, 8]
    publisher.faults = [fault] * 4
    with pytest.raises(DownloadFailed, match="4 times"):
        fetch()


def test_server_that_stalls_is_given_up(
    fetch: Callable[..., Any], publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "READ_TIMEOUT_S", 0.05)
    publisher.faults = [hangs] * 4
    with pytest.raises(DownloadFailed, match="did not answer"):
        fetch()


def test_body_that_drips_has_a_deadline(
    fetch: Callable[..., Any], publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "ATTEMPT_TIMEOUT_S", 0.2)
    publisher.faults = [drips_body]
    with pytest.raises(DownloadFailed, match="did not arrive within"):
        fetch()


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_honoured(
    fetch: Callable[..., Any], publisher: Publisher, pauses: list[float], status: int
) -> None:
    soon = formatdate(time.time() + 100, usegmt=True)
    publisher.faults = [raw(b"", status, f"Retry-After: {wait}\r\n") for wait in ("120", "0", soon)]
    fetch()
    assert pauses[:2] == [120, 0]
    assert 90 < pauses[2] <= 100


def test_long_retry_after_fails_at_once(fetch: Callable[..., Any], publisher: Publisher, pauses: list[float]) -> None:
    publisher.faults = [raw(b"", 429, "Retry-After: 3600\r\n")]
    with pytest.raises(DownloadFailed, match="answered 429 and asks to wait 3,600 s"):
        fetch()
    assert pauses == []


@pytest.mark.parametrize(
    ("status", "error"), [(206, DownloadFailed), (404, NotPublished), (401, DownloadFailed), (403, DownloadFailed)]
)
def test_refusals_are_not_retried(
    fetch: Callable[..., Any], publisher: Publisher, status: int, error: type[Exception]
) -> None:
    publisher.faults = [raw(BODY, status, CSV)]
    with pytest.raises(error, match=str(status)):
        fetch()
    assert len(publisher.requests) == 1


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (HTML, "web page"),
        (endless, "larger than 1 MB"),
        (chunked(b"x" * 2_000_000), "larger than 1 MB"),
        (raw(b"", headers="Content-Encoding: br\r\n"), "encoding"),
    ],
)
def test_unusable_bodies_are_refused_at_once(
    fetch: Callable[..., Any], publisher: Publisher, settings: Any, fault: Behaviour, message: str
) -> None:
    settings.REFRESH_MAX_MB = 1
    publisher.faults = [fault]
    with pytest.raises(UnreadableFile, match=message):
        fetch()
    assert len(publisher.requests) == 1


# --- Redirects -------------------------------------------------------------------------------------------------------


def test_redirects_are_followed_without_reading_their_bodies(
    fetch: Callable[..., Any], publisher: Publisher, tmp_path: Path
) -> None:
    publisher.faults = [redirect("/elsewhere"), redirect("/file")]
    assert fetch() == '"v1"'
    assert publisher.requests == ["/file", "/elsewhere", "/file"]
    assert (tmp_path / "file").read_bytes() == BODY


def test_credentials_are_not_sent_to_another_host(fetch: Callable[..., Any], publisher: Publisher) -> None:
    other = Publisher(files={"/file": BODY}).start()
    publisher.faults = [redirect(f"{other.url}/file")]
    fetch(headers={"Authorization": "Bearer hunter2"})
    assert publisher.sent(0, "Authorization") == "Bearer hunter2"
    assert other.sent(0, "Authorization") is None
    other.server.stop()


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "http://169.254.169.254/latest/meta-data",
        "http://[::ffff:10.0.0.1]/file",
        "https://[",
    ],
)
def test_redirect_to_no_allowed_address_is_refused(
    fetch: Callable[..., Any], publisher: Publisher, tmp_path: Path, url: str
) -> None:
    publisher.faults = [redirect(url)]
    with pytest.raises(DownloadFailed, match="redirect") as raised:
        fetch()
    assert url not in str(raised.value)
    assert left(tmp_path) == []


def test_published_url_may_only_be_public_and_https(fetch: Callable[..., Any], publisher: Publisher) -> None:
    with pytest.raises(DownloadFailed, match="not allowed"):
        fetch(address_policy="public")
    with (
        http.Session("https://www.example.org/", "loopback", timeout_s=5) as session,
        pytest.raises(http.RequestFailed, match="not allowed"),
        session.request("GET", publisher.url),
    ):
        pass
    assert publisher.requests == []


def test_proxies_and_netrc_of_the_environment_are_not_used(
    fetch: Callable[..., Any], publisher: Publisher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login user password hunter2\n")
    netrc.chmod(stat.S_IRUSR)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert requests.utils.get_netrc_auth(publisher.url) == ("user", "hunter2")
    fetch()
    assert publisher.sent(0, "Authorization") is None
