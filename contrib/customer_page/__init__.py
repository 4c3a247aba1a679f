"""Pages of customers, by a signed link and without a login: docs/customer-page.md."""
