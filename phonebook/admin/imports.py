"""The Imports page: which there were, and what each did."""

from typing import Any

from django.contrib import admin
from django.db.models import Q
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from unfold.utils import display_for_label

from core.admin import ConditionFilter, LargeTableAdmin, ReadOnlyAdmin
from core.cells import column
from phonebook.imports.batches import INTERRUPTED
from phonebook.imports.readers import base
from phonebook.models import ImportBatch

#: State → unfold's type of its label.
STATE_LABELS = {
    "Done": "success",
    "Failed": "danger",
    "Undone": "warning",
    "Running": "info",
    "Being undone": "info",
}
_COUNTS = ("added", "changed", "removed", "unchanged", "repeated")


def shown_time(value: Any) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S}" if value else "-"


def _counts(batch: ImportBatch) -> str:
    found = [f"{batch.counts[name]:,} {name}" for name in _COUNTS if batch.counts.get(name)]
    rejected = sum(batch.counts.get("rejected", {}).values())
    text = ", ".join([*found, *([f"{rejected:,} rejected"] if rejected else [])]) or "-"
    return f"{text} (planned)" if batch.counts.get("planned") else text


def _failure(batch: ImportBatch) -> str:
    """Why the import failed, what it has changed, and what to do; empty if it did not fail."""
    if batch.state != ImportBatch.State.FAILED:
        return ""
    if batch.undo:
        return batch.error
    if batch.error.startswith(INTERRUPTED):
        why = "The import was interrupted."
        written = batch.error.removeprefix(INTERRUPTED).strip() or "Some rows may have been written."
    else:
        why, written = f"The import failed: {batch.error or 'the reason was erased.'}", ""
    if not batch.counts:
        written = f"No {batch.get_kind_display().lower()} were changed."
    return " ".join(filter(None, (why, written, "Import the file again.")))


def fault_texts(faults: list[dict[str, Any]]) -> list[str]:
    """Rows that are not imported, in the order of the file, and why."""
    return [_fault_text(row) for row in sorted(faults, key=lambda row: (row["file"], row["line"] or 0))]


def _fault_text(row: dict[str, Any]) -> str:
    place = f"{row['file']}, line {row['line']:,}" if row["line"] else row["file"]
    reason = [row["reason"], row["detail"]]
    if row["reason"] == base.REPEATED and row["detail"]:
        reason = [f"repeats {row['detail']}"]
    return f"{place}: {': '.join(filter(None, (row.get('contact'), row['number'], *reason)))}"


def _more(batch: ImportBatch) -> list[str]:
    """How many more rows than its `faults` were not imported."""
    rejected = sum((batch.counts.get("rejected") or {}).values())
    more = rejected + batch.counts.get("repeated", 0) - len(batch.faults)
    return [f"and {more:,} more"] if more > 0 else []


def lines(texts: list[str]) -> str:
    return (
        format_html("<ul>{}</ul>", format_html_join("", "<li>{}</li>", ((text,) for text in texts))) if texts else "-"
    )


class KindFilter(ConditionFilter):
    title = parameter_name = "kind"
    conditions = {value: (label, Q(kind=value)) for value, label in ImportBatch.Kind.choices}


class StateFilter(ConditionFilter):
    title = parameter_name = "state"
    conditions = {value: (label, Q(state=value)) for value, label in ImportBatch.State.choices}


@admin.register(ImportBatch)
class ImportBatchAdmin(ReadOnlyAdmin, LargeTableAdmin):
    list_display = ("__str__", "when", "user", "kind", "file", "state_label", "rows")
    list_filter = (KindFilter, StateFilter)
    lookups_allowed = ("kind", "state")
    ordering = ("-pk",)
    sortable_by = ()

    # Not by unfold's decorator, which has no effect on the page of an import.
    state_label = column(lambda batch: display_for_label(batch.get_state_display(), "-", STATE_LABELS), "state")
    when = column(lambda batch: shown_time(batch.created_at), "started (UTC)")
    ended = column(lambda batch: shown_time(batch.finished_at), "finished (UTC)")
    user = column(lambda batch: batch.by, "by")
    file = column(lambda batch: batch.file_name or "-", "file")
    option_texts = column(
        lambda batch: ", ".join(f"{name}: {value}" for name, value in batch.options.items()) or "-", "options"
    )
    rows = column(_counts, "rows")
    rejected = column(
        lambda batch: lines(
            [
                f"{count:,} row{'s' * (count != 1)}: {reason}"
                for reason, count in sorted((batch.counts.get("rejected") or {}).items())
            ]
        ),
        "rejected",
    )
    faults_shown = column(lambda batch: lines([*fault_texts(batch.faults), *_more(batch)]), "rows not imported")

    def get_fields(self, request: HttpRequest, obj: ImportBatch | None = None) -> tuple[str, ...]:
        fields = ["state_label", "rows", "kind", "file", "when", "ended", "user", "option_texts"]
        if obj is not None:
            shown = {"rejected": obj.counts.get("rejected"), "faults_shown": obj.faults}
            fields += [name for name, value in shown.items() if value]
        return tuple(fields)

    def page_context(self, request: HttpRequest, obj: ImportBatch) -> dict[str, Any]:
        return {"title": str(obj), "subtitle": None, "failure": _failure(obj)}
