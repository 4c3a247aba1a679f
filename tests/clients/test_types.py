"""The types of both clients are the schemas of docs/openapi.yaml, and they accept the same documents."""

import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, get_type_hints

import jsonschema
import pytest
import yaml

import callerid_client
from tests.clients.drivers import CLIENTS, Search
from tests.plugin import ROOT
from tests.servers import required
from tests.upstream import Upstream, says

pytestmark = pytest.mark.once

DOCUMENT = yaml.safe_load((ROOT / "docs" / "openapi.yaml").read_text(encoding="utf-8"))
SEARCH = DOCUMENT["paths"]["/callerid/search"]["post"]
SCHEMAS = DOCUMENT["components"]["schemas"]
#: What a client receives; it makes an error of ErrorResponse.
RECEIVED = ("Combined", "SearchData", "SearchResponse", "SourceA", "SourceB")
EXAMPLES = [
    example["value"] for example in SEARCH["responses"]["200"]["content"]["application/json"]["examples"].values()
]
DECLARATIONS = (ROOT / "clients" / "javascript" / "index.d.ts").read_text(encoding="utf-8")
PYTHON_TYPES = {"string": str, "boolean": bool, "integer": int}
JAVASCRIPT_TYPES = {"string": "string", "boolean": "boolean", "integer": "number"}


def properties(name: str) -> Iterator[tuple[str, str, bool]]:
    """Name, type or schema, and whether it is required, of each property."""
    schema = SCHEMAS[name]
    for member, definition in schema["properties"].items():
        kind = definition["$ref"].rpartition("/")[2] if "$ref" in definition else definition["type"]
        yield member, kind, member in schema.get("required", ())


def camel_case(name: str) -> str:
    return re.sub("_([a-z])", lambda found: found[1].upper(), name)


@pytest.mark.parametrize("name", RECEIVED)
def test_python_dataclass_has_the_fields_of_the_schema(name: str) -> None:
    expected = {}
    for member, kind, is_required in properties(name):
        known = PYTHON_TYPES.get(kind) or getattr(callerid_client, kind)
        expected[member] = known if is_required else known | None
    cls = getattr(callerid_client, name)
    assert get_type_hints(cls) == expected
    assert {field.name for field in fields(cls)} == set(expected)


@pytest.mark.parametrize("name", RECEIVED)
def test_javascript_interface_has_the_members_of_the_schema(name: str) -> None:
    declared = re.search(rf"(?m)^export interface {name} {{\n((?:  .+\n)+)}}$", DECLARATIONS)
    assert declared
    assert declared[1].splitlines() == [
        f"  readonly {camel_case(member)}{'' if is_required else '?'}: {JAVASCRIPT_TYPES.get(kind, kind)};"
        for member, kind, is_required in properties(name)
    ]


def test_clients_send_what_the_schema_describes() -> None:
    """What the other tests compare requests with."""
    assert set(SCHEMAS) == {*RECEIVED, "SearchRequest", "ErrorResponse"}
    assert set(SCHEMAS["SearchRequest"]["properties"]) == {"api_key", "query"}
    assert set(SCHEMAS["ErrorResponse"]["properties"]) == {"detail"}
    assert {parameter["name"] for parameter in SEARCH["parameters"]} == {"Idempotency-Key", "X-Request-ID"}


def changed(document: Any) -> Iterator[Any]:
    """The document without each of its members, and with another type of each. All examples have all members."""
    others: tuple[object, ...] = ("text", True, 7, None, [], {})
    yield from others
    for path in list(paths(document)):
        for other in ("absent", *others):
            copied = copy.deepcopy(document)
            parent = copied
            for name in path[:-1]:
                parent = parent[name]
            if other == "absent":
                del parent[path[-1]]
            else:
                parent[path[-1]] = other
            yield copied


def paths(document: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, value in document.items():
        yield (name,)
        if isinstance(value, dict):
            yield from ((name, *path) for path in paths(value))


def is_valid(document: object) -> bool:
    schema = {"$ref": "#/components/schemas/SearchResponse", "components": DOCUMENT["components"]}
    return bool(jsonschema.Draft202012Validator(schema).is_valid(document))


@pytest.mark.parametrize("client", CLIENTS)
def test_client_accepts_what_the_schema_accepts(vendor: Callable[..., Upstream], client: str) -> None:
    documents = [*EXAMPLES, *changed(EXAMPLES[0])]
    searches = [Search(vendor(says(document)).url, "a.b.c", "493023125555", 1, 30, 30) for document in documents]
    with required():
        outcomes = CLIENTS[client](searches)
    for document, outcome in zip(documents, outcomes, strict=True):
        assert outcome.error == ("" if is_valid(document) else "InvalidAnswer"), document
        if document in EXAMPLES:
            assert {name: outcome.result[name] for name in document} == document
