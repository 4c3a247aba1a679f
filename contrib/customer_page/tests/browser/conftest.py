"""A browser and a service of these tests' own."""

from tests.browser.conftest import browser, filled, mailbox, page, service, watch

__all__ = ["browser", "filled", "mailbox", "page", "service", "watch"]
