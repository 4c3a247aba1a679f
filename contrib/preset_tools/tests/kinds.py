"""A kind of tests/cases: what presets make of vendors' replies."""

import json
from contextlib import suppress
from io import StringIO
from typing import Any

from django.core.management import CommandError, call_command

from tests.cases.case import Case


def vendor_reply(case: Case) -> None:
    """`[replies]`: a file as `curl -i` prints it = the outcome, with the fields where it is found, for each preset of
    `presets`; `hint`: a part of what is said about each reply that is neither found nor not found."""
    hint, expected, presets = case.data.pop("hint", ""), case.data.pop("replies"), case.data.pop("presets")
    assert presets, "or nothing is compared"
    got, texts = dict[str, Any](), list[str]()
    for name in presets:
        for file in expected:
            output = StringIO()
            with suppress(CommandError):  # of a bad response
                reply = str(case.folder / file)
                call_command("check_preset", name, "--reply", reply, "--json", stdout=output, stderr=StringIO())
            (row,) = map(json.loads, output.getvalue().splitlines())
            got[f"{name} {file}"] = {"outcome": row["outcome"], **row["fields"]}
            texts += [row["text"]] if row["outcome"] not in ("found", "not_found") else []
    assert got == {f"{name} {file}": wanted for name in presets for file, wanted in expected.items()}
    assert [text for text in texts if hint not in text] == []
    assert texts or not hint
