"""Helpers of the transport's tests."""

import asyncio
import socket
from typing import Any

import pytest

from core import loop
from core.addresses import AddressPolicy
from lookup.vendors.transport import Client, Reply, Request

#: The clients of the test that runs.
clients: dict[AddressPolicy, Client] = {}


def send(request: Request, *, policy: AddressPolicy = "loopback", timeout_s: float = 5) -> Reply:
    """With this test's client for that address policy. Raises TimeoutError, as the guard's limit does."""
    client = clients.setdefault(policy, Client(policy))

    async def limited() -> Reply:
        async with asyncio.timeout(timeout_s):
            return await client.send(request, max_body_bytes=1000)

    return loop.run(limited())


def close_clients() -> None:
    for client in clients.values():
        loop.run(client.close())
    clients.clear()


def get(url: str, **options: Any) -> Reply:
    return send(Request("GET", url, {"X-Key": "a-secret"}), **options)


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """DNS returns these addresses for vendor.example.com; without one, the name is unknown."""
    real = socket.getaddrinfo

    def lookup(host: str, *arguments: Any, **options: Any) -> Any:
        if host != "vendor.example.com":
            return real(host, *arguments, **options)
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [entry for address in addresses for entry in real(address, *arguments, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
