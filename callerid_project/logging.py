"""Log lines on standard error. No token, phone number or name gets through, whoever writes the line."""

import logging
import logging.config
import traceback
from typing import Any

from django.http import HttpRequest

from callerid_project.middleware import request_id
from callerid_project.redaction import redact

log = logging.getLogger(__name__)


class RedactingFormatter(logging.Formatter):
    """`time level logger request_id message`, in one line but for a traceback.

    A traceback shows where, and which exceptions; their messages are left out, for they may hold what a caller or a
    source sent. What looks like a token or a phone number is masked everywhere else.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s request_id=%(request_id)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        record.request_id = request_id.get()
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:
        return redact(super().formatMessage(record)).replace("\n", " ")

    def formatException(self, ei: Any) -> str:
        lines: list[str] = []
        seen: set[int] = set()
        error: BaseException | None = ei[1]
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            lines.append(f"{type(error).__module__}.{type(error).__qualname__}, raised at:\n")
            lines += traceback.format_tb(error.__traceback__)
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        return redact("".join(lines)).rstrip()


def log_uncaught(sender: Any, request: HttpRequest, **kwargs: Any) -> None:
    """Django's signal for an exception that no view has answered."""
    log.exception("unforeseen error")


def configure(config: dict[str, Any]) -> None:
    """Django's LOGGING_CONFIG: `config` has the one thing that is set, `level`."""
    # What no line shows need not be found out for each ("Optimization" in the logging module's documentation).
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"redacting": {"()": RedactingFormatter}},
            "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "redacting"}},
            "root": {"handlers": ["stderr"], "level": "WARNING"},
            "loggers": {
                "accounts": {"level": config["level"]},
                "callerid": {"level": config["level"]},
                "callerid_project": {"level": config["level"]},
                "lookup": {"level": config["level"]},
                # The line a request is ours, and so is an uncaught error's (log_uncaught): Django's would repeat
                # them with the raw path, or the raw Host header.
                "django.request": {"level": "CRITICAL"},
                "django.security": {"level": "CRITICAL"},
                # Its warnings hold URLs, with the number in them and with some vendors the key.
                "urllib3": {"level": "CRITICAL"},
            },
        }
    )
