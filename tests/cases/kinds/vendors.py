"""What presets make of vendors' replies."""

import json
from io import StringIO
from typing import Any

from django.core.management import CommandError, call_command

from tests.cases.case import Case


def vendor_reply(case: Case) -> None:
    """`[replies]`: a file as `curl -i` prints it = the outcome, with the fields where it is found, for each preset of
    `presets`; `hint`: a part of what is said about those that are not."""
    hint, expected = case.data.pop("hint", ""), case.data.pop("replies")
    got: dict[str, Any] = {}
    for name in case.data.pop("presets"):
        for file in expected:
            output = StringIO()
            try:
                reply = str(case.folder / file)
                call_command("check_preset", name, "--reply", reply, "--json", stdout=output, stderr=StringIO())
            except CommandError:
                pass  # a bad response
            row = json.loads(output.getvalue().splitlines()[-1])
            got[f"{name} {file}"] = {"outcome": row["outcome"], **row["fields"]}
            if hint and row["outcome"] not in ("found", "not_found"):
                assert hint in row["text"]
    presets = {key.partition(" ")[0] for key in got}
    assert got == {f"{name} {file}": wanted for name in presets for file, wanted in expected.items()}
