"""Undoes imports."""

from collections.abc import Callable
from typing import Any

from django.db import connections

from contrib.uploads import undo
from contrib.uploads.undo import UndoResult
from phonebook.models import ImportBatch


def undone(batch_id: int) -> UndoResult:
    """Undo the import, if it met any row."""
    if undo.problem(ImportBatch.objects.get(pk=batch_id)).reason == "It changed nothing.":
        return UndoResult()
    expected = undo.preview(batch_id=batch_id)
    assert undo.undo(batch_id=batch_id, by="ann") == expected
    return expected


def in_thread(function: Callable[[], Any]) -> Any:
    try:
        return function()
    finally:
        connections.close_all()
