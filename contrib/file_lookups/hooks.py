from callerid_project import hooks
from console import pages
from contrib.file_lookups.conf import KEPT_DAYS
from contrib.uploads import RECEIVERS
from core import retention

PACKAGE = "contrib.file_lookups"

hooks.ON_START.add(f"{PACKAGE}.conf.require_search_url")
RECEIVERS["lookup"] = f"{PACKAGE}.services.receive"
pages.SIDEBAR.add(
    pages.Place(
        "Numbers",
        pages.list_page(
            "Look up a file", "find_in_page", "file_lookups.filelookup", "operator", "look-ups batch csv search numbers"
        ),
        after="Complaints",
    )
)
pages.ACTIONS.add(
    pages.Page(
        *("Upload numbers to look up", "", "file_lookups_filelookup_upload"),
        *("file_lookups.add_filelookup", "operator", "csv file"),
    )
)
retention.EXPIRING.add(
    retention.Expiring("file_lookups", f"{PACKAGE}.services.prune", f"file look-ups after {KEPT_DAYS} days")
)
retention.NUMBERED.add(
    retention.Numbered(
        *("file_lookup_rows", "Rows of files to look up", "deleted"),
        *(f"{PACKAGE}.services.count", f"{PACKAGE}.services.erase"),
    )
)
