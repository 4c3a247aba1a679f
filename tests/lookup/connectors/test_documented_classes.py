"""The connector classes in docs/connectors.md work as printed."""

import re
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_loader
from typing import Any

import pytest

from lookup.answers import Answer, Failed, Found, NotFound
from lookup.connectors import registry
from tests.api import NUMBER
from tests.awaited import search
from tests.lookup.vendors.searches import guard_of, in_flight, until
from tests.plugin import ROOT
from tests.upstream import Upstream, hangs, raw, says

pytestmark = pytest.mark.django_db

PAGE = (ROOT / "docs" / "connectors.md").read_text(encoding="utf-8")
# Each example begins with the name of its file.
EXAMPLES = dict(re.findall(r"```python\n# (\w+)\.py\n(.*?)```", PAGE, re.DOTALL))
#: Module, class, the path that it requests, what the service says, and the connector's answer to that.
CASES = [
    ("switchboard", "Switchboard", f"/extensions/{NUMBER}", {"name": "Ext. 12"}, Found(name="Ext. 12")),
    ("customers", "Customers", f"/customers?phone={NUMBER}", {"name": "Ann"}, Found(name="Ann")),
    (
        *("customers", "Customers", f"/customers?phone={NUMBER}"),
        *({"name": "Ann", "city": "Berlin"}, Found(name="Ann", location="Berlin")),
    ),
]
CLASSES = [("switchboard", "Switchboard"), ("customers", "Customers")]
#: What the service says of a number that it does not know.
UNKNOWN = {"switchboard": says({"error": "unknown extension"}, 404), "customers": says({})}


@pytest.fixture
def bind(
    monkeypatch: pytest.MonkeyPatch, settings: Any, vendor: Callable[..., Upstream]
) -> Callable[[str, str, Any], Upstream]:
    """Bind slot A to an example, and start the service that it calls."""

    def bind(module: str, name: str, behaviour: Any) -> Upstream:
        spec = spec_from_loader(module, loader=None)
        assert spec
        example = module_from_spec(spec)
        exec(EXAMPLES[module], vars(example))
        monkeypatch.setitem(sys.modules, module, example)
        server = vendor(behaviour)
        monkeypatch.setenv(f"{module.upper()}_URL", server.url)
        settings.SOURCE_A, settings.SOURCE_B = f"{module}.{name}", "tests.connectors.Knows"
        return server

    return bind


def test_each_example_is_tested() -> None:
    assert sorted(EXAMPLES) == sorted(module for module, _ in CLASSES)


@pytest.mark.parametrize(("module", "name", "path", "document", "answer"), CASES)
def test_example_returns_what_the_service_knows(
    bind: Any, module: str, name: str, path: str, document: object, answer: Answer
) -> None:
    server = bind(module, name, says(document))
    assert search(NUMBER).slots["source_a"].answer == answer
    assert [head.split(b" ")[:2] for head in server.heads] == [[b"GET", path.encode()]]


@pytest.mark.parametrize(("module", "name"), CLASSES)
@pytest.mark.parametrize(
    ("behaviour", "kind", "reason"),
    [
        (None, NotFound, "not_found"),
        (raw(b"<html>", 404), Failed, None),
        (raw(b"", 503), Failed, "unavailable"),
        (says({"other": 1}), Failed, "error"),
        (raw(b"<html>"), Failed, "error"),
    ],
    ids=["not found", "404", "503", "another shape", "no JSON"],
)
def test_example_tells_failures_from_not_found(
    bind: Any, module: str, name: str, behaviour: Any, kind: type[NotFound | Failed], reason: str | None
) -> None:
    bind(module, name, behaviour or UNKNOWN[module])
    answer = search(NUMBER).slots["source_a"].answer
    assert isinstance(answer, kind)
    assert reason in (answer.reason, None)


@pytest.mark.parametrize(("module", "name"), CLASSES)
@pytest.mark.usefixtures("short_deadline")
def test_hanging_call_of_an_example_ends(bind: Any, module: str, name: str) -> None:
    bind(module, name, hangs)
    answer = search(NUMBER).slots["source_a"].answer
    assert isinstance(answer, Failed)
    assert answer.reason == "late"
    until(lambda: in_flight(guard_of(f"{module}.{name}")) == 0)


def test_async_example_closes_its_session(bind: Any) -> None:
    bind("switchboard", "Switchboard", says({"name": "Ann"}))
    search(NUMBER)
    connector: Any = registry.get_source("switchboard.Switchboard").connector
    assert not connector.session.closed
    registry.reset()
    assert connector.session.closed
