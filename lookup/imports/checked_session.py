"""A `requests` session for downloads, which follows redirects but checks each address before it sends a request there.

It uses no proxy and no .netrc of the environment, and verifies certificates with CA_BUNDLE.
"""

import io
import socket
from typing import Any
from urllib.parse import urlsplit

import requests
from django.conf import settings
from requests.adapters import HTTPAdapter

from lookup.vendors.addresses import AddressNotAllowed, AddressPolicy, require_allowed

MAX_REDIRECTS = 5


def checked_session(url: str, policy: AddressPolicy) -> requests.Session:
    """A session for downloading `url`. It raises AddressNotAllowed for an address that `policy` excludes, and for plain
    HTTP unless `url` is HTTP; otherwise as `requests`."""
    session = requests.Session()
    session.trust_env = False
    session.verify = settings.CA_BUNDLE or True
    session.max_redirects = MAX_REDIRECTS
    for prefix in ("http://", "https://"):
        session.mount(prefix, _CheckedAdapter(policy, https_only=urlsplit(url).scheme == "https"))
    return session


class _CheckedAdapter(HTTPAdapter):
    """Sends each request of a session, redirected ones included."""

    def __init__(self, policy: AddressPolicy, *, https_only: bool) -> None:
        super().__init__()
        self._policy, self._https_only = policy, https_only

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        url = urlsplit(request.url or "")
        if self._https_only and url.scheme != "https":
            raise AddressNotAllowed
        try:
            found = socket.getaddrinfo(url.hostname, url.port, type=socket.SOCK_STREAM)
        except OSError:
            found = []  # `requests` reports it
        # Between this and the connection DNS could change, but a host inside has no certificate for that name.
        for entry in found:
            require_allowed(str(entry[4][0]), self._policy)
        response = super().send(request, *args, **kwargs)
        if response.is_redirect:  # Session would read its body, which may be endless
            response.close()
            response.raw = io.BytesIO()
        return response
