"""The Imports page: which there were, what each did, and undoing one. `uploads` imports a file."""

from typing import Any, cast

from django.contrib import admin
from django.db import OperationalError
from django.db.models import Q
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from unfold.utils import display_for_label

from core import numbers
from core.admin import (
    ConditionFilter,
    LargeTableAdmin,
    ReadOnlyAdmin,
    form_action,
    require,
)
from core.cells import change_link, column
from core.commands import command_line
from phonebook.admin.uploads import ImportUploadAdmin, can_import, fault_texts
from phonebook.imports import undo
from phonebook.imports.batches import INTERRUPTED
from phonebook.imports.staging import LockNotAvailable
from phonebook.models import ImportBatch

#: A request cannot undo more rows in its time; a command can.
MAX_ROWS = 10_000
#: State → unfold's type of its label.
STATE_LABELS = {
    "Done": "success",
    "Failed": "danger",
    "Undone": "warning",
    "Running": "info",
    "Being undone": "info",
}
_COUNTS = ("added", "changed", "removed", "unchanged", "repeated")


def _command(batch: ImportBatch) -> str:
    return f"Run this command instead: {command_line(f'undo_import {batch.pk}')}"


def _problem(batch: Any) -> str:
    """Why the import cannot be undone, with a link to the later import that it names, and its file. Computed once."""
    if not hasattr(batch, "problem"):
        batch.problem, later = undo.problem(batch)
        if later is not None:
            text = f"{later.file_name} (import {later.pk})" if later.file_name else str(later)
            link = change_link("phonebook_importbatch", later.pk, text)
            batch.problem = format_html("{}{}", link, batch.problem.removeprefix(str(later)))
    return cast(str, batch.problem)


def _time(value: Any) -> str:
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


def _lines(texts: list[str]) -> str:
    return (
        format_html("<ul>{}</ul>", format_html_join("", "<li>{}</li>", ((text,) for text in texts))) if texts else "-"
    )


def _left_texts(left: list[tuple[int, str]]) -> list[str]:
    return [f"{numbers.formatted(str(number))}: {why}" for number, why in left]


def _undone(batch: ImportBatch) -> str:
    if batch.undo is None or batch.undone_at is None:
        return _problem(batch) or "Not undone."
    return f"{_time(batch.undone_at)} UTC, by {batch.undone_by}. Rows: {undo.UndoResult(**batch.undo)}."


class KindFilter(ConditionFilter):
    title = parameter_name = "kind"
    conditions = {value: (label, Q(kind=value)) for value, label in ImportBatch.Kind.choices}


class StateFilter(ConditionFilter):
    title = parameter_name = "state"
    conditions = {value: (label, Q(state=value)) for value, label in ImportBatch.State.choices}


@admin.register(ImportBatch)
class ImportBatchAdmin(ImportUploadAdmin, ReadOnlyAdmin, LargeTableAdmin):
    list_display = ("__str__", "when", "user", "kind", "file", "state_label", "rows")
    list_filter = (KindFilter, StateFilter)
    lookups_allowed = ("kind", "state")
    ordering = ("-pk",)
    sortable_by = ()
    actions_detail = ("undo_import",)

    # Not by unfold's decorator, which has no effect on the page of an import.
    state_label = column(lambda batch: display_for_label(batch.get_state_display(), "-", STATE_LABELS), "state")
    when = column(lambda batch: _time(batch.created_at), "started (UTC)")
    ended = column(lambda batch: _time(batch.finished_at), "finished (UTC)")
    user = column(lambda batch: batch.by, "by")
    file = column(lambda batch: batch.file_name or "-", "file")
    option_texts = column(
        lambda batch: ", ".join(f"{name}: {value}" for name, value in batch.options.items()) or "-", "options"
    )
    rows = column(_counts, "rows")
    rejected = column(
        lambda batch: _lines(
            [
                f"{count:,} row{'s' * (count != 1)}: {reason}"
                for reason, count in sorted((batch.counts.get("rejected") or {}).items())
            ]
        ),
        "rejected",
    )
    first_faults = column(lambda batch: _lines(fault_texts(batch.faults)), "first rows not imported")
    undo_text = column(_undone, "undo")
    left = column(
        lambda batch: _lines(_left_texts(undo.left(batch))),
        "left as they are",
    )

    def get_fields(self, request: HttpRequest, obj: ImportBatch | None = None) -> tuple[str, ...]:
        fields = ["state_label", "rows", "kind", "file", "when", "ended", "user", "option_texts", "undo_text"]
        if obj is not None:
            shown = {"rejected": obj.counts.get("rejected"), "first_faults": obj.faults}
            fields += [name for name, value in shown.items() if value]
            if obj.undone_at and obj.undo and obj.undo["left"] and can_import(request, obj.kind):
                fields.append("left")
        return tuple(fields)

    def get_object(self, request: Any, object_id: str, from_field: str | None = None) -> Any:
        """Once for a page, whose buttons and text need its `_problem`."""
        if not hasattr(request, "import_batch"):
            request.import_batch = super().get_object(request, object_id, from_field)
        return request.import_batch

    def page_context(self, request: HttpRequest, obj: ImportBatch) -> dict[str, Any]:
        return {"title": str(obj), "subtitle": None, "failure": _failure(obj), **self.progress_context(request, obj)}

    # --- Undo -----------------------------------------------------------------------------------------------------

    def offers(self, request: HttpRequest, url_path: str, obj: ImportBatch) -> bool:
        return can_import(request, obj.kind) and not _problem(obj)

    def action_context(self, request: HttpRequest, url_path: str, obj: ImportBatch) -> dict[str, Any]:
        require(can_import(request, obj.kind))
        if request.method == "POST":
            return {}
        if self._is_large(obj):
            return {"explanation": f"It has more than {MAX_ROWS:,} rows. {_command(obj)}"}
        try:
            what = f"{obj.get_kind_display()} of {_time(obj.created_at)} UTC{obj.file_name and f', {obj.file_name}'}"
            rows = undo.preview(batch_id=obj.pk)
            left = _left_texts(undo.would_leave(batch_id=obj.pk)) if rows.left else []
            named = f" Rows that will be left: {'; '.join(left)}." if left else ""
            return {"explanation": f"{what}. Rows that will be: {rows}.{named}"}
        except undo.CannotUndo as error:
            return {"explanation": str(error)}
        except OperationalError:
            return {"explanation": f"The rows could not be counted in time. {_command(obj)}"}

    @staticmethod
    def _is_large(batch: ImportBatch) -> bool:
        return sum(batch.counts.get(name, 0) for name in ("added", "changed", "removed")) > MAX_ROWS

    @form_action(
        "Undo this import",
        "phonebook.view_importbatch",
        explanation=(
            "Restores the rows that the import changed, puts back those that it removed, and deletes those that it "
            "added. Rows that were changed since are left as they are."
        ),
        atomic=False,
    )
    def undo_import(self, request: HttpRequest, obj: ImportBatch, data: dict[str, Any]) -> str:
        if self._is_large(obj):
            raise ValueError(f"It has more than {MAX_ROWS:,} rows. {_command(obj)}")
        try:
            result = undo.undo(batch_id=obj.pk, by=request.user.get_username(), wait=False)
        except undo.CannotUndo as error:
            raise ValueError(str(error)) from error
        except LockNotAvailable as error:
            raise ValueError("An import is running. Try again when it has finished.") from error
        except OperationalError as error:
            raise ValueError(f"The database timed out. {_command(obj)}") from error
        undo.record(obj, result, user=request.user)  # type: ignore[arg-type]
        return f"The import was undone. Rows: {result}."
