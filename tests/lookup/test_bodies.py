"""10,000 generated and mutated bodies: never a 5xx, always an object whose `detail` is one string."""

import json
import random
from typing import Any

import pytest

from tests.api import NUMBER, Integrator

HOW_MANY = 10_000
JUNK: list[Any] = [
    *("", " ", "\x00", "\ud800", "\u202e", "٤٩", "1e999", "-0", "null", NUMBER, "+" + NUMBER, "x" * 300),
    *("<script>", "' OR 1=1 --", "%s%n{0}", "../../etc/passwd"),
    *(0, -1, 1.5, 10**30, True, None, [], {}, [[[]]], {"api_key": {"query": 1}}),
]
FRAGMENTS = [*rb'{ } [ ] " , : \ \u \ud800 NaN 1e999'.split(), b"\x00", b"\xff", b"\xc3\x28"]
CONTENT_TYPES = ["application/json"] * 12 + [
    "application/json; charset=utf-7",
    "text/plain",
    "",
    "application/json;;;=",
    "\x7f/\x7f",
]


def generated(chance: random.Random, valid: dict[str, Any]) -> bytes:
    members: Any = dict(valid)
    for _ in range(chance.randrange(3)):
        members[chance.choice(["api_key", "query", "more", ""])] = chance.choice(JUNK)
    if chance.random() < 0.1:
        members = chance.choice(JUNK)
    body = json.dumps(members, ensure_ascii=chance.random() < 0.8).encode("utf-8", "surrogatepass")
    for _ in range(chance.randrange(4)):
        at, upto = sorted(chance.randrange(len(body) + 1) for _ in range(2))
        match chance.randrange(5):
            case 0:
                body = body[:at] + body[at + 1 :]
            case 1:
                body = body[:at] + chance.choice(FRAGMENTS) + body[at:]
            case 2:
                body = body[:at] + bytes([chance.randrange(256)]) + body[at + 1 :]
            case 3:
                body = body[:at]
            case 4:
                body = body[:upto] + body[at:upto] * chance.randrange(1, 20) + body[upto:]
    return body


@pytest.mark.once
@pytest.mark.slow
def test_no_body_makes_the_service_fail(integrator: Integrator, settings: Any) -> None:
    settings.RATE_LIMIT = settings.AUTH_FAILURE_RATE = (10**6, 60)
    chance = random.Random(20260101)
    answers: dict[int, int] = {}
    for _ in range(HOW_MANY):
        body = generated(chance, {"api_key": integrator.key, "query": NUMBER})
        response = integrator.post(
            body,
            chance.choice(CONTENT_TYPES),
            Idempotency_Key=chance.choice(["k", "k k", "", "x" * 256, "é", str(chance.random())]),
        )
        answers[response.status_code] = answers.get(response.status_code, 0) + 1
        assert response.status_code < 500, body
        if response.status_code != 200:
            answer = response.json()
            assert list(answer) == ["detail"], body
            assert isinstance(answer["detail"], str), body
    assert set(answers) >= {200, 400, 401, 403, 415}, answers  # the mutations reach every check
    assert integrator.balance() == 10 - integrator.debits() == 0
