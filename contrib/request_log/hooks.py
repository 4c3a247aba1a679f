from django.conf import settings

from callerid_project import hooks
from console import pages
from contrib.request_log import receivers  # noqa: F401  (connects it)
from core import console_search, retention
from monitoring.hooks import RECENT_REQUESTS

PACKAGE = "contrib.request_log"
MODEL = "request_log.requestlogentry"

hooks.ON_START.add(f"{PACKAGE}.log.delete_while_serving")
RECENT_REQUESTS.add(f"{PACKAGE}.minutes.recent_requests")
pages.SIDEBAR.add(
    pages.Place(
        "Monitoring",
        pages.list_page("Request log", "list_alt", MODEL, "support operator auditor", "searches"),
        after="Monitoring",
    )
)
console_search.KINDS.add(console_search.Kind("Request log", "request id or number", f"{PACKAGE}.admin.found", MODEL))
retention.EXPIRING.add(
    retention.Expiring(
        *("requests", f"{PACKAGE}.log.prune"),
        f"requests of the request log after {settings.REQUEST_LOG_DAYS} days (REQUEST_LOG_DAYS)",
    )
)
retention.NUMBERED.add(
    retention.Numbered(
        *("requests", "Requests in the request log", "the number's mask and hash are removed"),
        *(f"{PACKAGE}.log.count", f"{PACKAGE}.log.erase"),
    )
)
