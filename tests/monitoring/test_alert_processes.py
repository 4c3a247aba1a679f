"""`send_notices` as its timers run it: several processes at once, and one that is killed while it sends."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests import plugin
from tests.service import Service
from tests.upstream import Upstream, held, raw

pytestmark = [pytest.mark.slow, pytest.mark.reliability]

EXPIRING = """
from datetime import timedelta
from django.utils import timezone
from accounts import tokens
from accounts.models import ApiToken
for n in range(3):
    tokens.issue(name=f"t{n}", initial_credits=5, actor="test")
ApiToken.objects.filter(name__startswith="t").update(expires_at=timezone.now() + timedelta(days=1))
"""
CLAIM_IS_OVER = """
from monitoring.models import Notice
Notice.objects.filter(due_at__isnull=False).update(due_at="2000-01-01T00:00:00Z")
"""


@pytest.fixture
def receiver(vendor: Callable[..., Upstream]) -> Upstream:
    return vendor(raw(b"", 204))


@pytest.fixture
def service(serve: Callable[..., Service], receiver: Upstream) -> Service:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    service = serve(ALERT_WEBHOOK_URLS=f"{receiver.url}/hook", ALERT_WEBHOOK_SECRET=secret, SOURCE_A="directory")
    service.manage("shell", "-c", EXPIRING)
    return service


def send(service: Service) -> subprocess.Popen[bytes]:
    command = [sys.executable, "manage.py", "send_notices"]
    return subprocess.Popen(command, cwd=plugin.ROOT, env=service.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def messages(receiver: Upstream) -> list[tuple[str, Any]]:
    """Type and id of the token, of each message that arrived."""
    bodies = [json.loads(body) for body in receiver.bodies]
    return sorted(
        (body["type"], body["data"]["subject"]) for body in bodies if body["data"]["kind"] == "token.expiring"
    )


def ids(receiver: Upstream) -> list[str]:
    return [line for head in receiver.heads for line in head.decode().split("\r\n") if line.startswith("webhook-id")]


def test_processes_at_once_send_each_alert_once(service: Service, receiver: Upstream) -> None:
    for event in ("incident.opened", "incident.resolved"):
        running = [send(service) for _ in range(3)]
        ended = [process.communicate(timeout=120) for process in running]
        assert [process.returncode for process in running] == [0, 0, 0], ended
        sent = messages(receiver)
        assert [kind for kind, _ in sent].count(event) == len({subject for _, subject in sent}) == 3
        service.manage("shell", "-c", "from accounts.models import ApiToken; ApiToken.objects.update(is_test=True)")
    assert len(ids(receiver)) == len(set(ids(receiver)))


def test_alert_of_a_killed_process_is_sent_again_with_its_id(service: Service, receiver: Upstream) -> None:
    """The receiver has read the message, and the sender dies before the answer."""
    arrived, answer = threading.Barrier(2), threading.Event()
    receiver.behave_as(held(answer, raw(b"", 204), arrived))
    process = send(service)
    arrived.wait(60)
    process.kill()
    process.communicate(timeout=60)
    answer.set()
    receiver.behave_as(raw(b"", 204))
    service.manage("send_notices")
    assert len(set(ids(receiver))) == len(ids(receiver))  # its claim is not over
    service.manage("shell", "-c", CLAIM_IS_OVER)
    service.manage("send_notices")
    first = ids(receiver)[0]
    assert ids(receiver).count(first) == 2
    assert receiver.bodies[0] == receiver.bodies[ids(receiver).index(first, 1)]
