"""A browser and a service of these tests' own."""

from tests.browser.conftest import _admin_session, admin_page, browser, command, filled, mailbox, service, watch

__all__ = ["_admin_session", "admin_page", "browser", "command", "filled", "mailbox", "service", "watch"]
