"""Uploads, and the undo of imports."""

from console import pages
from core import retention
from phonebook.imports import CHANGE_STORES

PACKAGE = "contrib.uploads"


def _import(title: str, model: str, synonyms: str) -> pages.Page:
    names = " ".join(f"phonebook.{each}_{model}" for each in ("add", "change", "delete"))
    return pages.Page(title, "", f"phonebook_{model}_import_file", names, "", f"upload a file csv {synonyms}")


CHANGE_STORES.add(f"{PACKAGE}.undo.store")
pages.EXTENSIONS.add(
    pages.Extension("phonebook.importbatch", f"{PACKAGE}.admin.ImportUploadAdmin"),
    pages.Extension("phonebook.importbatch", f"{PACKAGE}.undo_admin.UndoActions"),
    pages.Extension("phonebook.contact", f"{PACKAGE}.admin.ImportFileAction"),
    pages.Extension("phonebook.complaintday", f"{PACKAGE}.admin.ImportFileAction"),
)
pages.ACTIONS.add(
    _import("Import contacts", "contact", "vcard"),
    _import("Import complaints", "complaintday", "ftc fcc block list"),
    pages.list_page("Undo an import", "", "phonebook.importbatch", "", "uploads"),
)
retention.EXPIRING.add(
    retention.Expiring("uploads", f"{PACKAGE}.uploads.prune", "uploaded files that nobody has imported after 1 day"),
    retention.Expiring("import_changes", f"{PACKAGE}.undo.prune", "what is kept to undo imports after 30 days"),
)
retention.NUMBERED.add(
    retention.Numbered(
        "import_changes",
        "Rows kept to undo imports",
        "deleted",
        f"{PACKAGE}.undo.count_changes",
        f"{PACKAGE}.undo.erase",
        at_once=True,
    ),
    retention.Numbered(
        "uploads",
        "Uploaded files that are not imported yet, of all users",
        "discarded",
        f"{PACKAGE}.uploads.count_all",
        f"{PACKAGE}.uploads.erase_all",
        at_once=True,
        is_of_any=True,
    ),
)
