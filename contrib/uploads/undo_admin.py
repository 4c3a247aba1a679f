"""The undo of an import, on its page."""

from typing import Any, cast

from django.db import OperationalError
from django.http import HttpRequest
from django.utils.html import format_html

from contrib.uploads import undo
from contrib.uploads.admin import can_import
from core import numbers
from core.admin import ConsoleAdmin, form_action, require
from core.cells import change_link, column
from core.commands import command_line
from phonebook.admin.imports import lines, shown_time
from phonebook.imports.staging import LockNotAvailable
from phonebook.models import ImportBatch

#: A request cannot undo more rows in its time; a command can.
MAX_ROWS = 10_000
#: The end of the action's URL.
_PATH = "undo-import"


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


def _left_texts(left: list[tuple[int, str]]) -> list[str]:
    return [f"{numbers.formatted(str(number))}: {why}" for number, why in left]


def _undone(batch: ImportBatch) -> str:
    if batch.undo is None or batch.undone_at is None:
        return _problem(batch) or "Not undone."
    return f"{shown_time(batch.undone_at)} UTC, by {batch.undone_by}. Rows: {undo.UndoResult(**batch.undo)}."


class UndoActions(ConsoleAdmin):
    """For the ModelAdmin of ImportBatch."""

    actions_detail = ("undo_import",)
    undo_text = column(_undone, "undo")
    left = column(lambda batch: lines(_left_texts(undo.left(batch))), "left as they are")

    def get_fields(self, request: HttpRequest, obj: ImportBatch | None = None) -> tuple[str, ...]:
        fields = [*super().get_fields(request, obj)]
        at = fields.index("option_texts") + 1
        fields[at:at] = ["undo_text"]
        if obj is not None and obj.undone_at and obj.undo and obj.undo["left"] and can_import(request, obj.kind):
            fields.append("left")
        return tuple(fields)

    def get_object(self, request: Any, object_id: str, from_field: str | None = None) -> Any:
        """Once for a page, whose buttons and text need its `_problem`."""
        if not hasattr(request, "import_batch"):
            request.import_batch = super().get_object(request, object_id, from_field)
        return request.import_batch

    def offers(self, request: HttpRequest, url_path: str, obj: ImportBatch) -> bool:
        if url_path != _PATH:
            return super().offers(request, url_path, obj)
        return can_import(request, obj.kind) and not _problem(obj)

    def action_context(self, request: HttpRequest, url_path: str, obj: ImportBatch) -> dict[str, Any]:
        if url_path != _PATH:
            return super().action_context(request, url_path, obj)
        require(can_import(request, obj.kind))
        if request.method == "POST":
            return {}
        if self._is_large(obj):
            return {"explanation": f"It has more than {MAX_ROWS:,} rows. {_command(obj)}"}
        try:
            what = (
                f"{obj.get_kind_display()} of {shown_time(obj.created_at)} UTC{obj.file_name and f', {obj.file_name}'}"
            )
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
