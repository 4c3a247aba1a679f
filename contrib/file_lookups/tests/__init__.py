from typing import Any

from django.db.models import Model
from django.utils import timezone

MODEL = "file_lookups.filelookup"


def _ready(**owner: Any) -> Model:
    from contrib.file_lookups.models import FileLookup  # Django is set up when it is called

    return FileLookup.objects.create(state="ready", file_name="numbers.csv", delimiter=",", **owner)


def _run(row: Model) -> None:
    type(row)._default_manager.filter(pk=row.pk).update(state="running", seen_at=timezone.now())


#: For tests/cases.
KINDS = {"number_file": "contrib.file_lookups.tests.kinds.number_file"}
#: For tests/console/console_rows.py: what makes a row of the model.
ROWS = {MODEL: _ready}
#: For tests/console/role_table.py.
_VERBS = ("list", "upload", "start", "stop", "download", "discard")
ROLE_TABLE = {(MODEL, verb): "- - - - yes - yes" for verb in _VERBS}
TYPED: dict[tuple[str, str], dict[str, Any]] = {(MODEL, "upload"): {"file_name": "numbers.csv", "size": 3}}
PREPARED = {(MODEL, "stop"): _run}
_UPLOAD = ("upload_part", "upload_progress", "upload_step", "progress")
OF_AN_UPLOAD = {f"file_lookups_filelookup_{name}": "test_pages.py" for name in _UPLOAD}
#: For tests of `forget` and `prune`: what they count.
ERASED, PRUNED = {"file_lookup_rows": 0}, {"file_lookups": 0}
#: For tests/test_patterns.py.
WORST = {
    "contrib.file_lookups.client._POLICY": '"token";q=1',
    "contrib.file_lookups.management.commands.lookup_file._RUN": "0",
    "contrib.file_lookups.token_field._TOKEN": "(#1",
}
