"""What the HTTP server and the settings make of addresses, hosts, ids and whole requests."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client, RequestFactory

from callerid_project.environment import Environment
from callerid_project.middleware import request_id_for
from core.client_address import UNKNOWN_ADDRESS, client_address
from tests import raw_http
from tests.cases.case import Case
from tests.load import create_tokens
from tests.service import Service


def forwarded_address(case: Case, settings: Any) -> None:
    settings.TRUSTED_PROXIES = case.data.pop("trusted_proxies")
    expected = case.data.pop("client")
    assert {sent: _client_address(sent) for sent in expected} == expected


def _client_address(forwarded: str) -> str:
    request = RequestFactory().get("/", REMOTE_ADDR="10.0.0.4", HTTP_X_FORWARDED_FOR=forwarded)
    address = client_address(request)
    return "unreadable" if address == UNKNOWN_ADDRESS else address


def allowed_hosts(case: Case, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOWED_HOSTS", case.data.pop("allowed_hosts"))
    if refused := case.data.pop("refused", None):
        with pytest.raises(ImproperlyConfigured, match=re.escape(refused)):
            Environment().hosts("ALLOWED_HOSTS", [])
        return
    settings.ALLOWED_HOSTS = Environment().hosts("ALLOWED_HOSTS", [])
    expected = case.data.pop("status")
    assert {host: Client().get("/livez", headers={"Host": host}).status_code for host in expected} == expected


def request_id(case: Case) -> None:
    expected = case.data.pop("kept")
    assert {sent: request_id_for(sent) == sent for sent in expected} == expected


def connection(case: Case, serve: Callable[..., Service]) -> None:
    """Files with a request each, sent one after the other on one connection. `<token>`: an API token, `<length>`: the
    body's; a body is sent in chunks if the headers say so, with what stands behind `<trailers>`."""
    service = serve()
    (key,) = create_tokens(service, 1)
    statuses = []
    with raw_http.Connection(service.port) as peer:
        for name in case.data.pop("requests"):
            head, _, body = (case.folder / name).read_text(encoding="utf-8").partition("\n\n")
            body, _, trailers = body.replace("<token>", key).partition("\n<trailers>\n")
            content = body.strip().encode()
            if "chunked" in head:
                length = len(content)
                last = b"0\r\n" + trailers.replace("\n", "\r\n").encode() + b"\r\n"
                content = raw_http.chunk(content[: length // 2]) + raw_http.chunk(content[length // 2 :]) + last
            head = head.replace("<length>", str(len(content))).replace("\n", "\r\n")
            statuses.append(peer.send(f"{head}\r\n\r\n".encode() + content).read().status)
    assert statuses == case.data.pop("status")
