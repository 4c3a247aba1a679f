"""Imports in the console: uploads of files, with a preview, and the undo of imports: docs/importing.md."""

#: Of uploads that are not imported: kind → the dotted path of a context manager that takes the file over, called with
#: the ImportUpload and the options of open_text; at the end of its block it deletes the upload. Filled by add-ons.
RECEIVERS: dict[str, str] = {}
