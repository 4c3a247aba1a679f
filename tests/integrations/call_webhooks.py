"""integrations/webhooks as a server, and calls as Twilio and Telnyx sign them."""

import base64
import hmac
import importlib.util
import threading
import time
from types import ModuleType, TracebackType
from typing import Any, Self
from urllib.parse import urlencode
from wsgiref.simple_server import WSGIRequestHandler, make_server

import requests
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests import plugin

SCRIPT = plugin.ROOT / "integrations" / "webhooks" / "call_webhooks.py"
NUMBER = "+493023125555"
ADDRESS = "https://calls.example.org/twilio?site=1"
AUTH_TOKEN = "12345"
TELNYX_KEY = Ed25519PrivateKey.generate()
SETTINGS = {
    "TOKEN": "a.b.c",
    "DIAL": "sip:100@pbx.example.org",
    "TWILIO_AUTH_TOKEN": AUTH_TOKEN,
    "TWILIO_WEBHOOK": ADDRESS,
    "TELNYX_PUBLIC_KEY": base64.b64encode(TELNYX_KEY.public_key().public_bytes_raw()).decode(),
}


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("call_webhooks", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Webhooks:
    """A server on loopback."""

    def __init__(self) -> None:
        class Quiet(WSGIRequestHandler):
            def log_message(self, *_: Any) -> None: ...

        self._server = make_server("127.0.0.1", 0, load().application, handler_class=Quiet)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def post(self, path: str, body: str, headers: dict[str, str]) -> requests.Response:
        headers = {"Content-Type": "application/x-www-form-urlencoded", **headers}
        return requests.post(f"http://127.0.0.1:{self._server.server_port}{path}", body, headers=headers, timeout=60)

    def twilio(self, caller: str = NUMBER, **more: str) -> requests.Response:
        call = {"CallSid": "CA1", "From": caller, "To": "+493023125000", **more}
        return self.post("/twilio", urlencode(call), {"X-Twilio-Signature": twilio_signature(call)})

    def telnyx(self, caller: str = NUMBER) -> requests.Response:
        body = urlencode({"CallSid": "v3:1", "From": caller, "To": "+493023125000"})
        return self.post("/telnyx", body, telnyx_headers(body))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def twilio_signature(call: dict[str, str], address: str = ADDRESS) -> str:
    text = address + "".join(name + call[name] for name in sorted(call))
    return base64.b64encode(hmac.digest(AUTH_TOKEN.encode(), text.encode(), "sha1")).decode()


def telnyx_headers(body: str, age_s: int = 0) -> dict[str, str]:
    timestamp = str(int(time.time()) - age_s)
    signature = TELNYX_KEY.sign(f"{timestamp}|{body}".encode())
    return {"Telnyx-Timestamp": timestamp, "Telnyx-Signature-Ed25519": base64.b64encode(signature).decode()}
