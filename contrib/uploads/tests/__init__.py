from typing import Any

#: For tests/console/role_table.py: a row of TABLE by model and page, and what is entered there.
ROLE_TABLE = {
    ("phonebook.importbatch", "undo_import"): "- - - - yes - yes",
    ("phonebook.importbatch", "upload"): "- - - - yes - yes",
    ("phonebook.contact", "import_file"): "- - - - yes - yes",
    ("phonebook.complaintday", "import_file"): "- - - - yes - yes",
}
TYPED: dict[tuple[str, str], dict[str, Any]] = {
    ("phonebook.importbatch", "upload"): {"what": "contacts", "file_name": "people.csv", "size": 3}
}
#: Pages that are about the user's own upload: test_upload_pages.py.
OF_AN_UPLOAD = {f"phonebook_importbatch_upload_{name}": "" for name in ("part", "progress", "step")}
#: For tests of erasure: the names of what is counted.
ERASED = PRUNED = {"import_changes": 0, "uploads": 0}
