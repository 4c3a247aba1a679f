"""500 random and odd answers for each preset, judged by the vendors' own definitions."""

import json
import random
from typing import Any

import pytest

from lookup.answers import Answer, Failed, Found, NotFound
from lookup.vendors import preset, proxy_bodies
from lookup.vendors.transport import Reply
from tests.lookup.vendors.definitions import FAILURE, INVALID, NUMBER, Reading
from tests.lookup.vendors.documents import DEFINITIONS, Definition
from tests.lookup.vendors.searches import connector_of, shipped_preset

ANSWERS = 500


def wrong(definition: Definition, document: Any, answer: Answer) -> str:
    """Why the answer is wrong; empty if it is right."""
    reading = Reading(document)
    kind = definition.read(reading)
    fields = {"name": reading.name, "location": reading.location, "spam": reading.spam}
    known = {key: value for key, value in fields.items() if value is not None and kind is None}
    if isinstance(answer, Failed):
        return "" if kind == FAILURE or reading.odd else "is an answer"
    if isinstance(answer, Found):
        given = answer.known()
        right = given.items() <= known.items() if reading.odd else given == known
        return "" if right and kind is None else f"is {kind or known}"
    if kind == INVALID or (kind is None and not known):
        return "" if (answer.reason == INVALID) is (kind == INVALID) else f"is {kind}"
    return f"is {kind or known}"


def test_each_preset_has_a_definition() -> None:
    assert DEFINITIONS.keys() == {file.stem for file in preset.SHIPPED.glob("*.toml")}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_random_answers_mean_what_their_vendor_says(name: str) -> None:
    rng, definition, vendor = random.Random(name), DEFINITIONS[name], connector_of(shipped_preset(name))
    mistakes, seen = [], set()
    for _ in range(ANSWERS):
        source = definition if rng.random() < 0.8 else rng.choice([*DEFINITIONS.values()])  # or another vendor's
        document = source.document(rng)
        answer = vendor.classify(Reply(200, {}, json.dumps(document).encode()), NUMBER).answer
        seen.add(type(answer))
        if why := wrong(definition, document, answer):
            mistakes.append((why, document, answer))
    assert mistakes == []
    assert seen == {Found, NotFound, Failed}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_gateways_and_damaged_bodies_are_failures_of_all(name: str) -> None:
    """Whatever a gateway sends with status 200, and each documented answer cut short, counts for the breaker."""
    rng, vendor = random.Random(name), connector_of(shipped_preset(name))
    gateways = [json.dumps(body).encode() for body in proxy_bodies.of([200])]
    samples = [sample.body.encode() for sample in vendor.preset.sample if sample.body.strip().startswith(("{", "["))]
    bodies = rng.sample(gateways, ANSWERS // 2)
    bodies += [body[: rng.randrange(1, len(body.strip()))] for body in rng.choices(samples, k=ANSWERS // 2)]
    answers = {body: vendor.classify(Reply(200, {}, body), NUMBER).answer for body in bodies if body.strip() != b"[]"}
    assert {body: answer for body, answer in answers.items() if not isinstance(answer, Failed)} == {}
    assert [body for body, answer in answers.items() if isinstance(answer, Failed) and answer.number_specific] == []
