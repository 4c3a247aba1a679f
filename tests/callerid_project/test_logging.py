"""No log line contains secrets or personal data, whoever writes it."""

import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable

import pytest
import requests

from callerid_project.logging import Facts, JSONFormatter, TextFormatter
from tests.api import NUMBER
from tests.plugin import ROOT
from tests.raw_http import Connection
from tests.service import Service

TOKEN = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJqdGkiOiJ4In0.Zm9vYmFy"


Line = Callable[..., str]


@pytest.fixture(params=[TextFormatter, JSONFormatter])
def line(request: pytest.FixtureRequest) -> Line:
    def format_line(message: str, *args: object, exc_info: object = None) -> str:
        record = logging.LogRecord("x", logging.ERROR, __file__, 1, message, args, exc_info)  # type: ignore[arg-type]
        text = str(request.param().format(record))
        if request.param is TextFormatter:
            return text
        assert "\n" not in text
        return "\n".join(json.loads(text).values())

    return format_line


@pytest.mark.parametrize("secret", [TOKEN, "493023125042", "+493023125042", "1234567", "123456789012345"])
def test_tokens_and_numbers_are_masked(secret: str, line: Line) -> None:
    assert secret.lstrip("+") not in line(f"a {secret}, b")
    assert secret.lstrip("+") not in line("a %s", secret)
    assert secret.lstrip("+") not in line("path /x/%s/", secret)
    assert secret.lstrip("+") not in line("ends in %s.", secret)
    assert secret.lstrip("+") not in line("n_%s", secret)


def test_newlines_and_control_characters_are_masked() -> None:
    record = logging.LogRecord("x", logging.ERROR, __file__, 1, "a\r\nINFO forged line\x1b[31m\u2028", (), None)
    assert "\n" not in TextFormatter().format(record)
    assert "\n" not in JSONFormatter().format(record)
    assert "\x1b" not in json.loads(JSONFormatter().format(record))["message"]


def test_times_are_utc_with_milliseconds() -> None:
    record = logging.LogRecord("x", logging.ERROR, __file__, 1, "m", (), None)
    record.created, record.msecs = 1_700_000_000.5, 500
    assert TextFormatter().format(record).startswith("2023-11-14T22:13:20.500Z ERROR x ")
    assert json.loads(JSONFormatter().format(record))["time"] == "2023-11-14T22:13:20.500Z"


def test_json_line_has_the_facts_of_a_request_as_fields() -> None:
    record = logging.LogRecord("callerid.request", logging.INFO, __file__, 1, "status=200", (), None)
    record.msg = Facts({"status": 200, "ms": 1.5, "number": "4930*******42", "other": TOKEN})
    line = json.loads(JSONFormatter().format(record))
    assert list(line) == ["time", "level", "logger", "request_id", "status", "ms", "number", "other"]
    assert line | {"time": ""} == {
        "time": "",
        "level": "INFO",
        "logger": "callerid.request",
        "request_id": "-",
        "status": 200,
        "ms": 1.5,
        "number": "4930*******42",
        "other": "<token>",
    }


def test_json_masks_facts_that_are_no_text() -> None:
    record = logging.makeLogRecord({"msg": Facts({"hosts": [NUMBER], "error": ValueError(NUMBER), "token": 12345678})})
    line = json.loads(JSONFormatter().format(record))
    assert (line["hosts"], line["error"], line["token"]) == ("['<number>']", "<number>", 12345678)


@pytest.mark.once
def test_every_line_of_a_production_service_is_json(
    serve: Callable[..., Service], postgres_url: str, redis_url: str
) -> None:
    service = serve(DATABASE_URL=postgres_url, REDIS_URL=redis_url, LOG_FORMAT="", TRUSTED_PROXIES="1")
    requests.post(f"{service.url}/callerid/search", headers={"X-Forwarded-For": "192.0.2.7"}, timeout=60)
    with Connection(service.port) as connection:
        assert connection.send(b"no HTTP\r\n\r\n").read().status == 400
    service.stop()
    lines = [json.loads(line) for line in service.log().splitlines()]
    (started,) = [line for line in lines if line.get("message", "").startswith("started: ")]
    assert "profile=production redis=yes source_a=directory,geography" in started["message"]
    (request,) = [line for line in lines if line.get("view") == "search"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", request["time"])
    assert request["client"] == "192.0.2.7"
    assert (request["level"], request["method"], request["status"]) == ("INFO", "POST", 415)
    assert isinstance(request["ms"], float)
    assert [line["level"] for line in lines if line["logger"] == "uvicorn.error"] == ["WARNING"]


@pytest.mark.once
def test_command_whose_reader_has_ended_prints_no_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        command = [sys.executable, "manage.py", "help"]
        ended = subprocess.run(command, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True)
    finally:
        os.close(writer)
    assert (ended.stderr, ended.returncode) == ("", 1)


def test_a_traceback_shows_locations_and_types_but_no_values(line: Line) -> None:
    name, key = "Alice Example", "secret-key"
    try:
        try:
            raise KeyError(name)
        except KeyError as cause:
            raise RuntimeError(key) from cause
    except RuntimeError:
        text = line("failed", exc_info=sys.exc_info())
    for word in ("builtins.RuntimeError, raised at", "builtins.KeyError, raised at", "test_logging.py"):
        assert word in text
    shown = [row for row in text.splitlines() if not row.startswith("    ")]  # without lines of source code
    assert not any(name in row or key in row for row in shown)
