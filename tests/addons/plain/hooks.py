"""Uses every hook of the kernel."""

from callerid_project import hooks
from console import blocks, pages
from core import console_search, retention
from lookup.vendors import SAMPLES
from monitoring import hooks as monitoring
from phonebook.imports import CHANGE_STORES, COMPLAINT_FORMATS, CONTACT_FORMATS, Format

PACKAGE = "tests.addons.plain"

hooks.URLS.add(f"{PACKAGE}.urls")
hooks.ON_START.add(f"{PACKAGE}.services.start")
hooks.ON_STOP.add(f"{PACKAGE}.services.stop")
pages.SIDEBAR.add(
    pages.Place("Numbers", pages.Page("Plain page", "star", "plain", "accounts.view_customer", "viewer"), "Rules")
)
pages.ACTIONS.add(pages.Page("Do it", "", "plain", "accounts.view_customer"))
pages.GRANTS.add(pages.Grant("viewer", "accounts.change_customer"))
pages.HEADER.add(pages.HeaderPart("plain_header.html", "plain.css", "plain.js"))
blocks.BLOCKS.add(blocks.Block("plain/block.html", f"{PACKAGE}.services.block"))
blocks.ATTENTION.add(f"{PACKAGE}.services.attention")
monitoring.CHECKS.add(f"{PACKAGE}.services.CHECK")
monitoring.FAILING_SINCE.add(f"{PACKAGE}.services.failing_since")
monitoring.SOURCE_SECTIONS.add(
    monitoring.Section("plain/section.html", f"{PACKAGE}.services.section"),
    monitoring.Section("plain/absent.html", f"{PACKAGE}.services.no_section"),
)
pages.VIEWS.add(pages.View("plain/", f"{PACKAGE}.services.page", "plain", "accounts.view_customer"))
pages.EXTENSIONS.add(pages.Extension("accounts.customer", f"{PACKAGE}.console.PlainActions"))
monitoring.RECENT_REQUESTS.add(f"{PACKAGE}.services.recent_requests")
console_search.KINDS.add(console_search.Kind("Plain kind", "anything", f"{PACKAGE}.services.found"))
retention.EXPIRING.add(retention.Expiring("plain_rows", f"{PACKAGE}.services.prune", "plain rows after 9 days"))
retention.NUMBERED.add(
    retention.Numbered(
        "plain_numbers", "Plain numbers", "deleted", f"{PACKAGE}.services.count", f"{PACKAGE}.services.count"
    ),
    retention.Numbered(
        "plain_files",
        "Plain files",
        "deleted",
        f"{PACKAGE}.services.count",
        f"{PACKAGE}.services.erase_files",
        at_once=True,
        is_of_any=True,
    ),
)
SAMPLES.add(f"{PACKAGE}.services.samples")
CHANGE_STORES.add(f"{PACKAGE}.services.store")
CONTACT_FORMATS.add(Format("plain", "Plain text", f"{PACKAGE}.services.PlainReader"))
COMPLAINT_FORMATS.add(Format("plain", "Plain", f"{PACKAGE}.services.PlainReader", "plain", is_published=True))
