"""Collects browser errors while a test opens pages."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, ConsoleMessage, Request, Response, Route, WebError


class Watch:
    """`problems`: every error in the console or in a script, failed request, and request to another origin."""

    def __init__(self, origin: str) -> None:
        self.problems: list[str] = []
        self._origin = origin
        self._expected: set[int] = set()

    def expect_status(self, status: int) -> None:
        """Allow responses with this status."""
        self._expected.add(status)

    def attach(self, context: "BrowserContext") -> None:
        context.route(re.compile(f"^(?!{re.escape(self._origin)}/)"), self._refuse)
        context.on("console", self._on_console)
        context.on("weberror", self._on_script_error)
        context.on("response", self._on_response)
        context.on("requestfailed", self._on_failed_request)

    def _refuse(self, route: "Route") -> None:
        self.problems.append(f"request to another origin: {route.request.url}")
        route.abort()

    def _on_console(self, message: "ConsoleMessage") -> None:
        # A resource that fails to load is also reported as a response or a failed request, with more detail.
        if message.type in ("error", "assert") and not message.text.startswith("Failed to load resource"):
            self.problems.append(f"console: {message.text} ({message.location['url']})")

    def _on_script_error(self, error: "WebError") -> None:
        self.problems.append(f"uncaught error: {error.error}")

    def _on_response(self, response: "Response") -> None:
        if response.status >= 400 and response.status not in self._expected:
            self.problems.append(f"answer {response.status}: {response.request.method} {response.url}")

    def _on_failed_request(self, request: "Request") -> None:
        # The browser cancels requests of a page that is left, e.g. by a second click.
        if request.failure != "net::ERR_ABORTED":
            self.problems.append(f"failed request: {request.method} {request.url}: {request.failure}")
