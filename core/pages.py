"""HTML pages outside the console."""

from csp.constants import SELF
from django.http import HttpRequest

#: Content-Security-Policy: no script, and nothing from elsewhere.
POLICY = {"style-src": [SELF], "img-src": [SELF]}


def asks_for_html(request: HttpRequest) -> bool:
    """Whether the client names HTML in `Accept`, as browsers do. Clients of the API accept JSON or anything, and get
    JSON."""
    return "text/html" in request.headers.get("Accept", "")
