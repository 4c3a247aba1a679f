"""`lookup_file`: every number of a file is searched, by the API, and paid for once."""

import codecs
import csv
import errno
import json
import os
import re
import signal
import stat
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from contrib.file_lookups import client
from contrib.file_lookups.number_file import NumberFile
from core import api_client
from tests import plugin, upstream
from tests.service import Service

KNOWS = {"SOURCE_A": "tests.connectors.Knows", "SOURCE_B": "tests.connectors.Knows"}
#: Reserved for fiction.
NUMBERS = [f"12125550{n}" for n in range(100, 200)]
ALL_OUTCOMES = {"found": 0, "not_found": 0, "invalid": 0, "failed": 0, "pending": 0}
Vendor = Callable[..., upstream.Upstream]


class Clock:
    """In place of the client's `time`: sleeping takes no time. `slept`: how long each time."""

    def __init__(self) -> None:
        self.now, self.slept = 1_000.0, list[float]()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if seconds:
            self.slept.append(seconds)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (api_client, client):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setenv("CALLERID_TOKEN", "the-token")
    return clock


def answer(number: str, credits_left: int = 5, **source_b: Any) -> bytes:
    data = {"phone_number": number, "source_a": {"name": "Bakery"}, "source_b": source_b}
    data["combined"] = {"source_a_available": True, "source_b_available": bool(source_b)}
    return json.dumps({"success": True, "data": data, "credits_remaining": credits_left}).encode()


class Api:
    """A service. `statuses`: of the next answers, 200 after them; `seen`: number and key of each request."""

    def __init__(self) -> None:
        self.statuses, self.headers = list[int](), ""
        self.seen = list[tuple[str, str]]()

    def __call__(self, conversation: upstream.Conversation) -> bool:
        body = json.loads(conversation.body)
        assert body["api_key"] == "the-token"
        key = re.search(rb"(?i)idempotency-key: (\S+)", conversation.head)
        self.seen.append((body["query"], key[1].decode() if key else ""))
        status = self.statuses.pop(0) if self.statuses else 200
        content = answer(body["query"]) if status == 200 else b'{"detail": "-"}'
        conversation.reply(status, content, self.headers)
        return True

    @property
    def numbers(self) -> list[str]:
        return [number for number, _ in self.seen]


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def run(vendor: Vendor, api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Look up a file; stdout, stderr and error."""
    server = vendor(api)

    def run(content: str | bytes, *arguments: str) -> tuple[str, str, str]:
        file = tmp_path / "numbers.csv"
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        failed = ""
        try:
            call_command(
                "lookup_file", str(file), "--output", str(tmp_path / "out.csv"), "--url", server.url, *arguments
            )
        except CommandError as error:
            failed = str(error)
        written = capsys.readouterr()
        return written.out, written.err.replace(str(tmp_path), ""), failed

    return run


def output(tmp_path: Path, delimiter: str = ",") -> list[list[str]]:
    with (tmp_path / "out.csv").open(encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file, delimiter=delimiter))


def test_output_has_all_rows_with_the_answers(run: Any, api: Api, tmp_path: Path) -> None:
    rows = f'\ufeffName;Phone Number\n"مَخْبَزُ; ""א""\nb";+1 (212) 555-0100\n\nx;{NUMBERS[1]}\ny\nz;{NUMBERS[0]}\n'
    out, err, failed = run(rows, "--json")
    assert output(tmp_path, ";") == [
        ["Name", "Phone Number", "searched_number", "outcome", "name_a", "location_a", "name_b", "spam_b"],
        ['مَخْبَزُ; "א"\nb', "+1 (212) 555-0100", NUMBERS[0], "found", "Bakery", "", "", ""],
        ["x", NUMBERS[1], NUMBERS[1], "found", "Bakery", "", "", ""],
        ["y", "", "", "invalid", "", "", "", ""],
        ["z", NUMBERS[0], NUMBERS[0], "found", "Bakery", "", "", ""],
    ]
    assert (tmp_path / "out.csv").read_bytes().startswith(codecs.BOM_UTF8)  # as the file does, for Excel
    assert api.numbers == NUMBERS[:2]  # each once
    outcomes = {**ALL_OUTCOMES, "found": 3, "invalid": 1}
    assert json.loads(out) == {"rows": 4, "numbers": 2, **outcomes, "credits_remaining": 5}
    assert err == "/numbers.csv:6: invalid phone number (is no phone number)\n"
    assert failed.startswith("1 rows have no valid number: correct them in ")
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("out.csv*")} == {0o600}


def test_finished_run_leaves_no_state_and_is_not_repeated(run: Any, api: Api, tmp_path: Path) -> None:
    out, err, failed = run(f"{NUMBERS[0]}\n")
    assert (err, failed) == ("", "")
    assert out.startswith("Rows: 1. Numbers: 1. Found: 1. ")
    assert [path.name for path in tmp_path.glob("out.csv*")] == ["out.csv"]
    assert "exists" in run(f"{NUMBERS[0]}\n")[2]
    assert len(api.seen) == 1


@pytest.mark.parametrize(
    ("rows", "arguments", "numbers"),
    [
        (f"{NUMBERS[0]}\n{NUMBERS[1]}", (), NUMBERS[:2]),  # without names
        (f"number\n{NUMBERS[0]}", (), NUMBERS[:1]),
        (f"1000001,{NUMBERS[0]}", ("--column", "2"), NUMBERS[:1]),
        (f"id,caller\n1000001,{NUMBERS[0]}", ("--column", "2"), NUMBERS[:1]),
        (f"id,phone 2\n1000001,{NUMBERS[0]}", ("--column", "2"), NUMBERS[:1]),
        (f"id,phone\n1,{NUMBERS[0]}\n2,{NUMBERS[1]}", ("--column", "2"), NUMBERS[:2]),
        (f"2,number\n{NUMBERS[0]},1000001", ("--column", "2"), NUMBERS[:1]),
        (f"number\tcalled 2\n1000001\t{NUMBERS[0]}", ("--column", "Called 2"), NUMBERS[:1]),
        ("(212) 555-0100", ("--region", "us"), NUMBERS[:1]),
    ],
)
def test_column_of_numbers(run: Any, api: Api, rows: str, arguments: tuple[str, ...], numbers: list[str]) -> None:
    assert run(rows, *arguments)[1:] == ("", "")
    assert api.numbers == numbers


@pytest.mark.parametrize(
    ("rows", "arguments", "problem"),
    [
        ("", (), "numbers.csv: the file is empty"),
        (f"1000001,{NUMBERS[0]}", (), "names no column 'number'"),
        (f"number\n{NUMBERS[0]}", ("--column", "phone"), "no such column"),
        (f"number\n{NUMBERS[0]}", ("--column", "2"), "no such column"),
        (f"number\n{NUMBERS[0]}", ("--column", "0"), "no such column"),
        (f"number,outcome\n{NUMBERS[0]},", (), "rename the column outcome"),
        ("número\n1".encode("cp1252"), (), "line 1 is not UTF-8"),
        (NUMBERS[0].encode(), ("--encoding", "nonsense"), "unknown encoding"),
        (NUMBERS[0], ("--region", "XX"), "ISO 3166-1"),
        (NUMBERS[0], ("--url", "http://example.org"), "--url must be https://"),
        (NUMBERS[0], ("--token-file", "/nonexistent"), "No such file"),
    ],
)
def test_unusable_file_or_option_costs_nothing(
    run: Any, api: Api, tmp_path: Path, rows: Any, arguments: tuple[str, ...], problem: str
) -> None:
    assert problem in run(rows, *arguments)[2]
    assert (api.seen, list(tmp_path.glob("out.csv*"))) == ([], [])


def test_token_file_may_begin_with_a_byte_order_mark(run: Any, api: Api, tmp_path: Path) -> None:
    """Eppie-io/Eppie-CLI#622: the mark became a part of the secret."""
    token = tmp_path / "token.txt"
    token.write_bytes(b"\xef\xbb\xbfthe-token\r\n")
    run(f"number\n{NUMBERS[0]}", "--token-file", str(token))
    assert api.numbers == [NUMBERS[0]]


def test_broken_lines_are_reported_and_keep_their_place(run: Any, api: Api, tmp_path: Path) -> None:
    rows = [b"number,name", b'1,"a', NUMBERS[0].encode() + b",b,c", b"\xff1,d", NUMBERS[1].encode() + b",e", b""]
    _, err, failed = run(b"\n".join(rows))
    assert [line.partition(": ")[0] for line in err.splitlines()] == [f"/numbers.csv:{n}" for n in (2, 3, 4)]
    assert [row[3] for row in output(tmp_path)[1:]] == ["invalid", "invalid", "invalid", "found"]
    assert failed.startswith("3 rows")
    assert api.numbers == [NUMBERS[1]]


def test_names_are_no_formulas(run: Any, api: Api, vendor: Vendor, tmp_path: Path) -> None:
    name = '=HYPERLINK("x")'
    server = vendor(upstream.raw(answer(NUMBERS[0], name=name, spam=True)))
    assert run(NUMBERS[0], "--url", server.url)[2] == ""
    assert output(tmp_path)[1][-2:] == [f"'{name}", "true"]


def test_no_credits_stops_until_the_next_run(run: Any, api: Api, tmp_path: Path) -> None:
    rows = "\n".join(NUMBERS[:4])
    api.statuses = [200, 200, 403]
    _, _, failed = run(rows)
    assert failed.startswith("The token has no credits left: top it up. 2 rows are not answered.")
    assert [row[2] for row in output(tmp_path)[1:]] == ["found", "found", "pending", "pending"]
    assert run(rows)[2] == ""
    assert api.numbers == [*NUMBERS[:3], *NUMBERS[2:4]]
    assert api.seen[2] == api.seen[3]  # with the same key
    assert len({key for _, key in api.seen}) == 4


@pytest.mark.parametrize(("status", "text"), [(401, "wrong, expired or revoked"), (404, "HTTP 404"), (301, "HTTP 301")])
def test_refusal_stops_at_once(run: Any, api: Api, status: int, text: str) -> None:
    api.statuses = [status]
    assert text in run("\n".join(NUMBERS[:2]))[2]
    assert len(api.seen) == 1


def test_failed_searches_are_tried_again_by_the_next_run(run: Any, api: Api, clock: Clock, tmp_path: Path) -> None:
    rows = "\n".join(NUMBERS[:3])
    api.statuses = [500, 200, *[500] * 4, 400]
    assert run(rows)[2].startswith("2 rows are not answered.")
    assert clock.slept == [1, 1, 2, 4]
    assert [row[2] for row in output(tmp_path)[1:]] == ["found", "failed", "failed"]
    assert run(rows)[2] == ""
    assert api.numbers[-2:] == NUMBERS[1:3]


def test_service_that_is_down_ends_the_run(run: Any, api: Api, clock: Clock, tmp_path: Path) -> None:
    _, _, failed = run("\n".join(NUMBERS), "--url", "http://127.0.0.1:1")
    assert failed.startswith("5 searches in turn failed: the server could not be reached")
    assert sum(clock.slept) == 5 * 7
    assert [row[2] for row in output(tmp_path)[1:]] == ["failed"] * 5 + ["pending"] * 95


def test_waits_are_those_that_the_service_names(run: Any, api: Api, clock: Clock) -> None:
    api.statuses, api.headers = [429, 503], 'Retry-After: 17\r\nRateLimit: "token";r=0;t=9\r\n'
    assert run("\n".join(NUMBERS[:2]))[2] == ""
    assert clock.slept == [17, 17, 9]


def test_longer_waits_than_an_hour_stop_the_run(run: Any, api: Api, clock: Clock) -> None:
    api.statuses, api.headers = [503], "Retry-After: 3601\r\n"
    assert run("\n".join(NUMBERS[:2]))[2].startswith("The service asks to wait for more than an hour")
    assert (len(api.seen), clock.slept) == (1, [])


@pytest.mark.parametrize("file", ["-", "pipe"])
def test_file_that_cannot_be_read_twice_costs_nothing(vendor: Vendor, api: Api, tmp_path: Path, file: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    url, name = vendor(api).url, file if file == "-" else str(tmp_path / file)
    with pytest.raises(CommandError, match="no regular file"):
        call_command("lookup_file", name, "--output", str(tmp_path / "out.csv"), "--url", url)
    assert (api.seen, list(tmp_path.glob("out.csv*"))) == ([], [])


def test_output_that_cannot_be_written_leaves_no_part(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(NumberFile, "write", write)
    assert "No space left" in run(NUMBERS[0])[2]
    assert [path.name for path in tmp_path.glob("out.csv*")] == ["out.csv.state"]


@pytest.mark.parametrize("body", [b"<html>", b'{"data":' * 10_000, b"9" * 5_000, b"\xff", b"[]"])
def test_answer_of_another_service_is_refused(run: Any, vendor: Vendor, body: bytes) -> None:
    server = vendor(upstream.raw(body))
    assert "not one of this API" in run(NUMBERS[0], "--url", server.url)[2]


def test_dry_run_sends_no_number(run: Any, api: Api, tmp_path: Path) -> None:
    api.statuses, api.headers = [400], 'RateLimit-Policy: "token";q=30;w=60\r\n'
    rows = "\n".join([*NUMBERS[:61], NUMBERS[0], "nobody"])
    plan = {"rows": 63, "invalid": 1, "numbers": 61, "credits": 61, "limit": 30, "window_s": 60, "seconds": 120}
    out, _, failed = run(rows, "--dry-run", "--json")
    assert (json.loads(out), failed) == (plan, "")
    assert (api.seen, list(tmp_path.glob("out.csv*"))) == ([("", "")], [])
    api.statuses, api.headers = [401], ""
    assert "wrong, expired or revoked" in run(rows, "--dry-run")[2]


def test_state_of_something_else_is_left_alone(run: Any, api: Api, tmp_path: Path) -> None:
    (tmp_path / "out.csv.state").write_text("mine\n")
    assert "no state of lookup_file" in run(NUMBERS[0])[2]
    assert (tmp_path / "out.csv.state").read_text() == "mine\n"
    assert api.seen == []


def test_memory_is_bounded(run: Any, api: Api, tmp_path: Path) -> None:
    """10,000 rows of 1 kB; all but one are answered."""
    numbers = [f"1212555{n:04}" for n in range(10_000)]
    api.statuses = [403]
    run(numbers[0])
    with (tmp_path / "out.csv.state").open("a") as state:
        state.writelines(json.dumps({"searched_number": n, "outcome": "not_found"}) + "\n" for n in numbers[1:])
    rows = "\n".join(f"{number},{'x' * 1_000}" for number in numbers)
    tracemalloc.start()
    assert run(rows, "--column", "1")[2] == ""
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30 * 2**20  # `rows` twice
    assert api.numbers == numbers[:1] * 2
    assert len(output(tmp_path)) == 10_001


# --- With the service ------------------------------------------------------------------------------------------------


def start(service: Service, token: str, file: Path, *arguments: str) -> "subprocess.Popen[str]":
    options = [str(file), "--output", f"{file}.out", "--url", service.url, "--token-file", "-", "--json", *arguments]
    process = subprocess.Popen(
        [sys.executable, "manage.py", "lookup_file", *options],
        cwd=plugin.ROOT,
        env=service.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    process.stdin.write(token)
    process.stdin.close()
    process.stdin = None
    return process


def test_killed_run_pays_for_each_number_once(serve: Callable[..., Service], tmp_path: Path) -> None:
    service = serve(RATE_LIMIT="100000/m", **KNOWS)
    token = service.manage("create_token", "file", "--credits", "1000", "--quiet")
    file = tmp_path / "numbers.txt"
    file.write_text("\n".join(NUMBERS + NUMBERS[:10]))
    state = Path(f"{file}.out.state")
    for lines, sent in ((20, signal.SIGKILL), (50, signal.SIGTERM)):
        process = start(service, token, file)
        while not state.exists() or state.read_bytes().count(b"\n") < lines:
            assert process.poll() is None
        process.send_signal(sent)
        _, err = process.communicate()
        assert ("Interrupted." in err) is Path(f"{file}.out").exists() is (sent == signal.SIGTERM)
        # Two answers that were paid for did not arrive.
        kept = state.read_bytes().splitlines(keepends=True)[:-2]
        state.write_bytes(b"".join(kept) + b'{"searched_number":"1')
    out, err = start(service, token, file).communicate()
    summary = json.loads(out)
    assert summary.items() >= {"rows": 110, "numbers": 100, "found": 110, "credits_remaining": 900}.items(), err
    assert not state.exists()
    service.manage("audit_credits")
    assert not any(number in service.log() for number in NUMBERS)


def test_rate_limit_is_kept_and_revoked_token_stops(serve: Callable[..., Service], tmp_path: Path) -> None:
    service = serve(RATE_LIMIT="5/s", **KNOWS)
    token = service.manage("create_token", "file", "--credits", "12", "--quiet")
    file = tmp_path / "numbers.txt"
    file.write_text("\n".join(NUMBERS[:20]))
    process = start(service, token, file)
    out, err = process.communicate()
    assert (process.returncode, json.loads(out)["found"], json.loads(out)["credits_remaining"]) == (1, 12, 0)
    assert "no credits left" in err
    answered = re.findall(r"status\W+(\d{3})", service.log())
    assert (answered.count("200"), answered.count("403"), answered.count("429")) == (12, 1, 0)
    service.manage("revoke_token", "1")
    _, err = start(service, token, file).communicate()
    assert "wrong, expired or revoked" in err


def test_test_token_costs_nothing(serve: Callable[..., Service], tmp_path: Path) -> None:
    service = serve(TEST_RATE_LIMIT="1000/m")
    token = service.manage("create_token", "file", "--test", "--quiet")
    file = tmp_path / "numbers.txt"
    file.write_text("12125550103\n12125550104")
    process = start(service, token, file)
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert json.loads(out).items() >= {"found": 1, "not_found": 1, "credits_remaining": 1000}.items()
    assert "12125550103,found,Example Bakery,New York,Example Bakery,true" in Path(f"{file}.out").read_text()
