import os
import re
from collections.abc import Callable
from difflib import get_close_matches
from http import HTTPStatus
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError, CommandParser

from contrib.preset_tools import samples
from core import http, loop, numbers
from core.commands import JSONCommand
from lookup.answers import Failed, Found
from lookup.connectors import registry
from lookup.management.commands.check_sources import shown
from lookup.source_actions import NUMBER
from lookup.vendors import preset
from lookup.vendors.json_api import Classification, JsonApi
from lookup.vendors.oauth2 import Refused
from lookup.vendors.preset import Preset
from lookup.vendors.transport import Reply

_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_HEADER = ["REPLY", "STATUS", "RULE", "OUTCOME", "FIELDS, OR WHAT IS WRONG"]


class Command(JSONCommand):
    help = (
        "Check presets: each one, shipped and yours, or FILE. A preset is validated and must read its own samples, "
        "which must reach each of its rules. With FILE: also shows its request, with the names of the environment "
        "variables in place of the secrets, and for each sample the rule that applies and the fields. Nothing is sent, "
        "but with --number alone. Fails if anything is wrong; with --reply for a bad_response, with --number alone "
        "without an answer."
    )
    json_help = "Print one JSON object per preset or reply."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("file", nargs="?", metavar="FILE", help="A preset's file, or the name of one.")
        parser.add_argument(
            "--reply", metavar="FILE", help="Read this reply, as `curl -i` prints it, or its body only."
        )
        help_text = (
            "Send one real request about this number, which the vendor may bill; with --reply: what it is about."
        )
        parser.add_argument("--number", help=help_text)

    def handle(self, *args: Any, file: str | None, **options: Any) -> None:
        faults: list[str] = []
        if file is None:
            if options["reply"] or options["number"]:
                raise CommandError("--reply and --number need FILE.")
            rows = [_checked(name, path) for name, path in registry.presets().items()]
            cells = [[row["preset"], str(row["samples"]), row["problem"] or f"ok{row['note']}"] for row in rows]
            self.write_rows(options, rows, ["PRESET", "SAMPLES", "RESULT"], cells)
        else:
            rows, faults = self._replies(_found(file), options)
        failed = sum(not row["ok"] for row in rows)
        if wrong := [f"{failed} of {len(rows)} failed"] * bool(failed) + faults:
            raise CommandError(f"{'; '.join(wrong)}.")

    def _replies(self, file: Path, options: dict[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
        """A row for each reply, and what else is wrong with the preset."""
        faults: list[str] = []
        try:
            loaded = preset.load(file)
            number = numbers.parse_typed(options["number"] or NUMBER)
            if not options["json"]:
                self.stdout.write(f"{samples.shown_request(loaded, number, os.environ)}\n\n")
            if options["reply"]:
                reply = _recorded(Path(options["reply"]), self.stderr.write)
                about = number if options["number"] else None
                row = _read(options["reply"], samples.connector(loaded), reply, about)
                rows = [row | {"ok": row["outcome"] != "bad_response"}]
            elif options["number"]:
                rows = [_called(loaded, number)]
            else:
                results = samples.run(loaded)
                rows = [_row(r.sample.title, r.sample.status, r.classified, "; ".join(r.problems)) for r in results]
                faults = _faults(loaded, results)
        except numbers.InvalidNumber as error:
            raise CommandError(f"--number: invalid phone number ({error}).") from error
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error
        columns = ("reply", "status", "rule", "outcome", "text")
        self.write_rows(options, rows, _HEADER, [[str(row[name] or "-") for name in columns] for row in rows])
        return rows, faults


def _found(name: str) -> Path:
    """The file of the preset with this name, or at this path."""
    known, path = registry.presets(), Path(name)
    if file := known.get(name) or (path if path.is_file() else None):
        return file
    nearest = "".join(f" The nearest name is {each}." for each in get_close_matches(path.stem, known, n=1))
    raise CommandError(
        f"{name}: no such file, and no preset of this name is shipped or in PRESET_DIR "
        f"({settings.PRESET_DIR or 'not set'}).{nearest}"
    )


def _checked(name: str, file: Path) -> dict[str, Any]:
    """What `check_preset` prints of a preset."""
    results, wrong, note = [], [], ""
    try:
        loaded = preset.load(file)
        results = samples.run(loaded)
        wrong += [f"'{r.sample.title}' {'; '.join(r.problems)}" for r in results if r.problems]
        wrong += _faults(loaded, results)
        alone = [str(number) for number, rule in enumerate(loaded.rules, start=1) if rule.status_alone]
        note = f" (whatever the body: outcome {', '.join(alone)})" if alone else ""
    except ImproperlyConfigured as error:
        wrong.append(str(error))
    return {"preset": name, "samples": len(results), "ok": not wrong, "problem": "; ".join(wrong), "note": note}


def _faults(loaded: Preset, results: list[samples.SampleResult]) -> list[str]:
    """What is wrong with a preset beside what its samples show."""
    built_in = [f"{loaded.name} is a built-in source: give the file another name"]
    return built_in * (loaded.name in registry.BUILT_IN) + samples.missing_samples(loaded, results)


def _called(loaded: Preset, number: str) -> dict[str, Any]:
    """By one real request, which is not repeated."""
    connector = JsonApi(loaded, os.environ)
    if not connector.covers(number):
        raise CommandError("The number is outside the preset's coverage, or cannot be written in its formats.")

    async def call() -> Reply:
        try:
            return await connector.exchange(number)
        finally:
            await connector.close()

    try:
        reply = loop.run(call())
    except (http.RequestFailed, Refused) as error:
        nothing: dict[str, Any] = {"reply": number, "status": None, "rule": None, "fields": {}, "ok": False}
        return nothing | {"outcome": "failed", "text": str(error)}
    row = _read(number, connector, reply, number)
    return row | {"ok": row["outcome"] in preset.ANSWERS}


def _recorded(file: Path, tell: Callable[[str], Any]) -> Reply:
    """Of several replies, such as one before a redirect, the last counts."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror}.") from error
    status, headers = HTTPStatus.OK.value, dict[str, str]()
    if not content.startswith(b"HTTP/"):
        tell(f"{file} has no status line: status {status} is assumed.")
    while content.startswith(b"HTTP/"):
        head, _, content = _BLANK_LINE.sub(b"\n\n", content, count=1).partition(b"\n\n")
        first, *lines = head.decode("latin-1").split("\n")
        if not (found := re.fullmatch(r"HTTP/\S+ ([1-5][0-9]{2})\b.*", first.strip())):
            raise CommandError(f"{file}: the first line has no status.")
        status = int(found[1])
        headers = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Reply(status, headers, content)


def _read(title: str, connector: JsonApi, reply: Reply, number: str | None) -> dict[str, Any]:
    """Of a reply whose meaning is not known, with the values of the expressions that could not be read."""
    classified = connector.classify(reply, number)
    row = _row(title, reply.status, classified)
    if classified.outcome == "bad_response" or (isinstance(classified.answer, Found) and classified.answer.unreadable):
        row["text"] = "; ".join([row["text"], *samples.explained(connector, reply, classified)])
    return row


def _row(title: str, status: int, classified: Classification, problem: str = "") -> dict[str, Any]:
    answer = classified.answer
    known = answer.known() if isinstance(answer, Found) else {}
    text = problem or shown(known) or (answer.hint if isinstance(answer, Failed) else "")
    named = {"reply": title, "status": status, "rule": classified.rule, "outcome": classified.outcome}
    return {**named, "text": text, "fields": known, "ok": not problem}
