"""Nothing secret or personal gets into a log line, whoever writes it."""

import logging
import sys

import pytest

from callerid_project.logging import RedactingFormatter

TOKEN = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJqdGkiOiJ4In0.Zm9vYmFy"


def line(message: str, *args: object, exc_info: object = None) -> str:
    record = logging.LogRecord("x", logging.ERROR, __file__, 1, message, args, exc_info)  # type: ignore[arg-type]
    return RedactingFormatter().format(record)


@pytest.mark.parametrize("secret", [TOKEN, "493023125042", "+493023125042", "1234567", "123456789012345"])
def test_tokens_and_numbers_are_masked(secret: str) -> None:
    assert secret.lstrip("+") not in line(f"a {secret}, b")
    assert secret.lstrip("+") not in line("a %s", secret)
    assert secret.lstrip("+") not in line("path /x/%s/", secret)
    assert secret.lstrip("+") not in line("ends in %s.", secret)
    assert secret.lstrip("+") not in line("n_%s", secret)


def test_a_line_stays_one_line() -> None:
    assert "\n" not in line("a\r\nINFO forged line\x1b[31m\u2028")


def test_a_traceback_tells_where_and_what_kind_but_no_message() -> None:
    def fail() -> None:
        try:
            raise KeyError("Alice Example")
        except KeyError as cause:
            raise RuntimeError("secret-key") from cause

    try:
        fail()
    except RuntimeError:
        text = line("failed", exc_info=sys.exc_info())
    assert "builtins.RuntimeError, raised at" in text
    assert "builtins.KeyError, raised at" in text
    assert "in fail" in text
    assert "test_logging.py" in text


def test_a_traceback_holds_no_value() -> None:
    name, key = "Alice Example", "secret-key"
    try:
        try:
            raise KeyError(name)
        except KeyError as cause:
            raise RuntimeError(key) from cause
    except RuntimeError:
        text = line("failed", exc_info=sys.exc_info())
    shown = [row for row in text.splitlines() if not row.startswith("    ")]  # without lines of source code
    assert not any(name in row or key in row for row in shown)


def test_exceptions_that_cause_each_other_end() -> None:
    first, second = ValueError(), ValueError()
    first.__cause__, second.__cause__ = second, first
    assert "ValueError" in line("failed", exc_info=(ValueError, first, None))
