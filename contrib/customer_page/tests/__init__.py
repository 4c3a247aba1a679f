from typing import Any

#: For the tests of the console's pages.
CONSOLE_SETTINGS = {"CUSTOMER_PAGES": True}
#: For tests/console/role_table.py: a row of TABLE by model and page, and what is entered there.
ROLE_TABLE = {
    ("accounts.customer", "link"): "- - - - yes - yes",
    ("accounts.customer", "revoke_links"): "- - - - yes - yes",
}
TYPED: dict[tuple[str, str], dict[str, Any]] = {("accounts.customer", "revoke_links"): {"confirmed": "on"}}
#: For the service of the browser tests.
BROWSER_ENVIRONMENT = {"CUSTOMER_PAGES": "true"}
#: For tests/browser/test_pages.py: by name, its path.
CONSOLE_PAGES = {
    "customer-link": "/admin/accounts/customer/{customer}/link/",
    "customer-revoke-links": "/admin/accounts/customer/{customer}/revoke-links/",
}
