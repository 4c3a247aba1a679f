"""Log lines on standard error, as text or JSON. No token, phone number or name gets into one, whoever writes it."""

import json
import logging
import os
import re
import sys
import time
import traceback
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from core.database_errors import describe

if TYPE_CHECKING:
    from django.http import HttpRequest

log = logging.getLogger(__name__)

#: The id of the request that is answered; middleware.observe sets it.
request_id: ContextVar[str] = ContextVar("request_id", default="-")

#: What neither a log line nor a request id may hold; deploy/nginx/callerid.conf has the same patterns. A JWT:
JWT = r"eyJ[A-Za-z0-9_-]{1,256}\."
#: and what may be a phone number, which has 7 to 15 digits. A longer run of digits holds such a number too.
DIGITS = r"[0-9]{7}"
#: A UUID may hold such a run. Its version and variant are those of RFC 9562, or the version 9, a or b that Envoy writes
#: into its own. One without a letter may be a padded phone number.
UUID = "(?=[0-9-]*[A-Fa-f])[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[1-9ABab][0-9A-Fa-f]{3}-[89ABab][0-9A-Fa-f]{3}-[0-9A-Fa-f]{12}"
#: What is kept of the ids that clients send.
REQUEST_ID = re.compile(rf"(?=[A-Za-z0-9._-]{{1,64}}\Z)(?:{UUID}|(?!.*{DIGITS})(?!.*{JWT}).+)")
_TOKEN = re.compile(JWT + r"[\w.-]*")
_DIGITS = re.compile(r"(?<![0-9])(?<!token=)\+?" + DIGITS + r"[0-9]*")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f\x85\u2028\u2029]")


def redact(text: str) -> str:
    """`text` with what looks like a JWT, a phone number (7 or more digits in a row) or a control character masked."""
    return _CONTROL.sub("?", _DIGITS.sub("<number>", _TOKEN.sub("<token>", text)))


def _shown_request_id() -> str:
    text = request_id.get()
    return text if REQUEST_ID.fullmatch(text) else redact(text)


class Facts(dict[str, Any]):
    """The message about a request: `name=value …` in a text line, members in a JSON line."""

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.items())


class TextFormatter(logging.Formatter):
    """`time level logger request_id message`, on one line except for a traceback. The time is UTC, as in RFC 3339.

    A traceback shows the locations and the types of the exceptions. Their messages are omitted: they may hold what a
    client or a source sent. Those of the database are shown where they quote no values.
    """

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s request_id=%(request_id)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        record.request_id = _shown_request_id()
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = redact(record.message)
        return super().formatMessage(record).replace("\n", " ")

    def formatException(self, ei: Any) -> str:
        lines: list[str] = []
        seen: set[int] = set()
        error: BaseException | None = ei[1]
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            lines.append(f"{type(error).__module__}.{describe(error)}, raised at:\n")
            lines += traceback.format_tb(error.__traceback__)
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        return redact("".join(lines)).rstrip()


class JSONFormatter(TextFormatter):
    """One JSON object per line: `time`, `level`, `logger`, `request_id`; then the facts of a request, or `message`; and
    `exception`, the traceback, if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "request_id": _shown_request_id(),
        }
        facts = record.msg if isinstance(record.msg, Facts) else {"message": record.getMessage()}
        if record.exc_info:
            facts = {**facts, "exception": self.formatException(record.exc_info)}
        plain = int | float | None
        line |= {name: value if isinstance(value, plain) else redact(str(value)) for name, value in facts.items()}
        return json.dumps(line)


def default_format() -> str:
    """`json` on the production profile, and `text` where a person watches."""
    return "json" if os.environ.get("DATABASE_URL", "").strip() and not sys.stderr.isatty() else "text"


#: Those of this project.
PACKAGES = ("accounts", "callerid_project", "console", "contrib", "core", "lookup", "monitoring", "phonebook")
FORMATTERS = {"text": TextFormatter, "json": JSONFormatter}


def log_uncaught(sender: Any, request: "HttpRequest", **kwargs: Any) -> None:
    """Receiver of Django's signal for an exception that no view has handled."""
    log.exception("unhandled error")


def configure(config: dict[str, Any]) -> None:
    """Django's LOGGING_CONFIG. `config` has two keys, `level` and `format`."""
    # No line shows these, so they need not be determined ("Optimization" in the logging module's documentation).
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None
    levels = dict.fromkeys(("callerid", *PACKAGES), config["level"])
    # RequestMiddleware and log_uncaught log these; Django's own lines would show the raw path or Host header.
    levels |= {"django.request": "CRITICAL", "django.security": "CRITICAL"}
    # Its warnings show URLs, which may hold a number or a key: `requests` uses it, in downloads and connector classes.
    levels["urllib3"] = "CRITICAL"
    handler = logging.StreamHandler()
    handler.setFormatter(FORMATTERS[config["format"]]())
    logging.root.handlers = [handler]
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
