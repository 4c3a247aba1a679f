import fcntl
import os
import re
import secrets
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import msgspec
from django.core.management.base import CommandError, CommandParser

from contrib.file_lookups.client import TIMEOUT_S, SearchClient, search_each
from contrib.file_lookups.number_file import (
    ANSWERED,
    COLUMNS,
    OUTCOMES,
    Record,
    Result,
    least_duration,
    open_numbers,
    result_of,
)
from core import addresses, http, numbers
from core.api_client import Refused
from core.progress_bar import progress_bar
from phonebook.imports.readers.base import UnreadableFile
from phonebook.management.import_command import BackgroundCommand

_RUN = re.compile(rb"[0-9a-f]{32}")
_private = partial(os.open, mode=0o600)


class Command(BackgroundCommand):
    help = (
        "Look up each number of a file by the API of this host or another one, and write a CSV with the columns of the "
        f"file and {', '.join(COLUMNS)}. A number is searched, and paid for, once. The token is that of CALLERID_TOKEN "
        "or --token-file. An interrupted run continues when it is repeated: answers are kept in OUTPUT.state until all "
        "rows are answered. Lines without a valid number are listed on stderr as FILE:LINE: reason, and the command "
        "fails at the end; it also fails if a search failed. See docs/looking-up-files.md."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("file", metavar="FILE", help="CSV, or one number per line; plain or gzip.")
        parser.add_argument("--output", required=True, metavar="OUTPUT", help="CSV, readable by its owner only.")
        parser.add_argument("--url", default="http://127.0.0.1:8000", help="Of the service (default: %(default)s).")
        parser.add_argument("--token-file", metavar="FILE", help="It contains the token; - for standard input.")
        parser.add_argument("--column", metavar="NAME", help="Column of the numbers, or its position, from 1.")
        parser.add_argument("--region", help="Where numbers without a plus are dialed, such as US.")
        parser.add_argument("--encoding", help="Such as cp1252, for a file that is not UTF-8.")
        plan = "Print what a run would search, and cost at most; a request that costs nothing checks the token."
        parser.add_argument("--dry-run", action="store_true", help=plan)

    def handle(self, *args: Any, **options: Any) -> None:
        output, state = Path(options["output"]), Path(f"{options['output']}.state")
        if output.exists() and not state.exists():
            raise CommandError(f"{output} exists: choose another file, or delete it.")
        if (region := options["region"] and options["region"].upper()) and region not in numbers.REGIONS:
            raise CommandError(f"--region: {options['region']} is no ISO 3166-1 code such as US.")
        if options["file"] == "-" or (Path(options["file"]).exists() and not Path(options["file"]).is_file()):
            raise CommandError(f"{options['file']} is no regular file, which is read twice.")
        url, token = _url(options["url"]), _token(options["token_file"])
        read = partial(
            open_numbers, options["file"], column=options["column"], encoding=options["encoding"], region=region
        )

        def report(record: Record) -> None:
            self.stderr.write(f"{options['file']}:{record.line}: {record.problem}", self.style.NOTICE)

        try:
            with read() as file:
                counts = file.count(report)
            policy = addresses.policy_for(url, private_network=True)
            with http.Session(url, policy, timeout_s=TIMEOUT_S) as session:
                client = SearchClient(session, url, lambda: token)
                if options["dry_run"]:
                    self._show_plan(client, counts, _read(state)[1], options)
                    return
                with _opened(state) as (journal, run, results):
                    due = [number for number in counts if number and number not in results]
                    stopped, balance = _search(client, run, due, results, journal)
                    with _replaced(output) as target, read() as file:
                        outcomes = file.write(target, results)
                    invalid = outcomes["invalid"]
                    unanswered = outcomes.total() - sum(outcomes[name] for name in ANSWERED) - invalid
                    if not unanswered and not invalid:
                        state.unlink()
        except OSError as error:
            raise CommandError(f"{error.filename or output}: {error.strerror or error}.") from error
        except UnreadableFile as error:
            raise CommandError(f"{error}.") from error
        summary = {"rows": counts.total(), "numbers": len(counts.keys() - {""})}
        summary |= {name: outcomes[name] for name in OUTCOMES} | balance
        shown = (f"{name.replace('_', ' ').capitalize()}: {value:,}." for name, value in summary.items())
        self.write_result(options, summary, " ".join(shown))
        if unanswered or invalid:
            kept = f"Answers are kept in {state}: run the command again."
            rows = [f"{unanswered:,} rows are not answered." * bool(unanswered)]
            rows += [f"{invalid:,} rows have no valid number: correct them in {options['file']}." * bool(invalid)]
            raise CommandError(" ".join(filter(None, (stopped, *rows, kept))))

    def _show_plan(
        self, client: SearchClient, counts: Counter[str], known: dict[str, Result], options: dict[str, Any]
    ) -> None:
        try:
            limit, window_s = client.rate_limit()
        except Refused as error:
            raise CommandError(str(error)) from None
        found = counts.keys() - {""}
        due = len(found - known.keys())
        duration = least_duration(due, limit, window_s)
        plan = {"rows": counts.total(), "invalid": counts[""], "numbers": len(found), "credits": due}
        plan |= {"limit": limit, "window_s": window_s, "seconds": int(duration.total_seconds())}
        text = (
            f"Rows: {plan['rows']:,}, {plan['invalid']:,} of them invalid. Different numbers: {len(found):,}. Credits, "
            f"at most: {due:,}. Time at {limit:,} requests in {window_s:,} s, at least: "
            f"{duration}."
        )
        self.write_result(options, plan, text)


def _url(url: str) -> str:
    try:
        addresses.require_url(url)
    except ValueError:
        raise CommandError("--url must be https://…, or http://… for localhost and private addresses.") from None
    return url


def _token(file: str | None) -> str:
    """From the file or CALLERID_TOKEN: arguments are visible to other users. Raises CommandError."""
    try:
        if file:
            text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        else:
            text = os.environ.get("CALLERID_TOKEN", "")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file}: {getattr(error, 'strerror', None) or 'not UTF-8'}.") from error
    if not (token := text.removeprefix("\ufeff").strip()):
        raise CommandError("There is no token: set CALLERID_TOKEN, or use --token-file.")
    return token


def _search(
    client: SearchClient, run: str, due: list[str], results: dict[str, Result], journal: BinaryIO
) -> tuple[str, dict[str, int]]:
    """Add the results of the numbers to `results`, and the answers to the journal. Returns why it stopped early, and
    `credits_remaining` of the last answer."""
    balance = {}

    def keep(number: str, body: dict[str, Any] | None) -> None:
        results[number] = result = result_of(number, body)
        if body:
            journal.write(msgspec.json.encode(result) + b"\n")
            balance["credits_remaining"] = body["credits_remaining"]

    with progress_bar(due, unit=" numbers") as bar:
        return search_each(client, run, bar, keep), balance


def _read(state: Path) -> tuple[str, dict[str, Result]]:
    """The id of the run, and its results by number, but for a line that a killed process left incomplete. Raises
    OSError, and CommandError for a file of another kind."""
    run, *lines = state.read_bytes().split(b"\n") if state.exists() else [b""]
    if run and not _RUN.fullmatch(run):
        raise CommandError(f"{state} is no state of lookup_file: choose another output, or delete it.")
    results = {}
    for line in lines:
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            result = msgspec.json.decode(line, type=Result)
            results[result.searched_number] = result
    return run.decode(), results


@contextmanager
def _opened(state: Path) -> Iterator[tuple[BinaryIO, str, dict[str, Result]]]:
    """The file to append to, by one process at a time, and what `_read` returns. Raises CommandError."""
    with open(state, "ab", buffering=0, opener=_private) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandError(f"Another process is writing {state}.") from None
        run, results = _read(state)
        new = secrets.token_hex(16)
        file.write(b"\n" if run else f"{new}\n".encode())  # ends an incomplete line
        yield file, run or new, results


@contextmanager
def _replaced(output: Path) -> Iterator[TextIO]:
    """A new file, readable by its owner only, which takes the place of `output` when it is complete."""
    new = output.with_name(f"{output.name}.new")
    new.unlink(missing_ok=True)
    try:
        with open(new, "x", encoding="utf-8", newline="", opener=_private) as file:
            yield file
        new.replace(output)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
