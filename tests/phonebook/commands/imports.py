"""Runs a command."""

import io
import json
from datetime import UTC, datetime
from typing import Any

from django.core.management import CommandError, call_command

from phonebook.models import ComplaintDay

JANE = 12125550142
TODAY = datetime.now(UTC).date()


class Ran:
    def __init__(self, *arguments: str) -> None:
        out, err = io.StringIO(), io.StringIO()
        self.error: CommandError | None = None
        try:
            call_command(*arguments, stdout=out, stderr=err, no_color=True)
        except CommandError as error:
            self.error = error
        self.out, self.err = out.getvalue(), err.getvalue()

    def counts(self) -> dict[str, Any]:
        """The counts of `--json` that are not 0."""
        assert self.error is None, self.error
        said = json.loads(self.out)
        return {name: said[name] for name in ("added", "changed", "unchanged", "removed", "repeated") if said[name]}


def complaint_days(**only: Any) -> list[tuple[Any, ...]]:
    rows = ComplaintDay.objects.filter(**only).order_by("number", "source", "day")
    return list(rows.values_list("number", "source", "day", "total", "robocalls", "subject__text"))
