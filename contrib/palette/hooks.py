from console import pages
from core.console_search import KINDS, Kind

_FINDING = "contrib.palette.finding"

pages.VIEWS.add(pages.View("search/", f"{_FINDING}.view", "search", ""))
pages.HEADER.add(pages.HeaderPart("admin/palette_header.html", "callerid/find.css", "callerid/find.js"))
KINDS.add(
    Kind(
        "Customers",
        "name, #id, contact, or a token's name or last four characters",
        f"{_FINDING}.customers",
        "accounts.customer",
    ),
    Kind(
        "API tokens",
        "name, customer, note, contact, #id or last four characters",
        f"{_FINDING}.api_tokens",
        "accounts.apitoken",
    ),
    Kind("Pages", "title", f"{_FINDING}.sidebar_pages"),
    Kind("Actions", "what you want to do, such as top up, 2FA or block", f"{_FINDING}.actions"),
    Kind("Ledger", "request id or reference", f"{_FINDING}.entries", "accounts.creditentry"),
    order=-1,
)
KINDS.add(
    Kind("Rules", "number, or prefix with +", f"{_FINDING}.number_rules", "phonebook.numberrule"),
    Kind("Contacts", "number or part of the name", f"{_FINDING}.contacts", "phonebook.contact"),
    Kind("Complaints", "number", f"{_FINDING}.complaints", "phonebook.complaintday"),
    Kind("Sources", "name", f"{_FINDING}.sources", "monitoring.source"),
    Kind("Users", "name or e-mail address", f"{_FINDING}.users", "auth.user"),
    order=1,
)
