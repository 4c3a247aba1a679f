"""Imports in the console: uploads of files, with a preview, and the undo of imports: docs/importing.md."""

from typing import NamedTuple

from core.hooks import Hook


class Check(NamedTuple):
    """Of uploads of another add-on, which are not imported. `kind`: theirs. `take_over`: the dotted path of a function
    of the ImportUpload and the options of open_text; its context manager deletes the upload at the end of its block."""

    kind: str
    take_over: str


CHECKS = Hook[Check]()
