"""Calls as the transport's tests make them."""

import socket
from typing import Any

import pytest

from lookup.connectors.addresses import Peers
from lookup.connectors.transport import Client, Reply, Request

#: This test's.
clients: dict[Peers, Client] = {}


def send(request: Request, *, peers: Peers = "loopback", retry_within_s: float = 1, lifetime_s: float = 5) -> Reply:
    """By this test's client for these peers."""
    client = clients.setdefault(peers, Client(peers))
    return client.send(request, retry_within_s=retry_within_s, lifetime_s=lifetime_s, max_body_bytes=1000)


def get(url: str, **options: Any) -> Reply:
    return send(Request("GET", url, {"X-Key": "a-secret"}), **options)


def names_lead_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """What DNS says of vendor.example.com."""
    real = socket.getaddrinfo

    def lookup(host: str, *arguments: Any, **options: Any) -> Any:
        if host != "vendor.example.com":
            return real(host, *arguments, **options)
        return [entry for address in addresses for entry in real(address, *arguments, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
