"""The OpenAPI document matches the API, and the docs page loads nothing from other hosts."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from django.core.management import call_command
from django.test import Client
from drf_spectacular.generators import SchemaGenerator

from tests.api import Integrator
from tests.plugin import ROOT

CONTRACT = {"200", "400", "401", "403", "429", "500"}


@pytest.fixture
def schema(client: Client) -> Any:
    return client.get("/schema").json()


@pytest.fixture
def operation(schema: Any) -> Any:
    return schema["paths"]["/callerid/search"]["post"]


def conforms(schema: Any, name: str, value: Any) -> None:
    closed = {"$ref": f"#/components/schemas/{name}", "components": schema["components"]}
    jsonschema.Draft202012Validator(closed).validate(value)


def test_the_schema_is_valid_openapi_3_1(schema: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert schema["openapi"].startswith("3.1")
    assert list(schema["paths"]) == ["/callerid/search"]
    call_command("spectacular", "--validate", "--fail-on-warn")
    assert "Error" not in capsys.readouterr().err


def test_the_committed_document_is_the_generated_one(tmp_path: Path) -> None:
    """After a change, `./run manage spectacular --file docs/openapi.yaml` writes it anew."""
    call_command("spectacular", "--file", str(tmp_path / "openapi.yaml"))
    generated = (tmp_path / "openapi.yaml").read_text(encoding="utf-8")
    assert (ROOT / "docs" / "openapi.yaml").read_text(encoding="utf-8") == generated


def test_the_document_is_generated_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    generated = []

    def generate(self: SchemaGenerator, *args: Any, **options: Any) -> Any:
        generated.append(self)
        return get_schema(self, *args, **options)

    get_schema = SchemaGenerator.get_schema
    monkeypatch.setattr(SchemaGenerator, "get_schema", generate)
    answers = [client.get("/schema", headers={"Accept": accept}) for accept in ("*/*", "text/html", "nonsense")]
    answers += [client.get("/schema/?version=canary&format=yaml&lang=de"), client.get("/schema?version=%0d%0ax")]
    assert len(generated) == 1
    assert len({answer.content for answer in answers}) == 1
    for answer in answers:
        assert answer.status_code == 200
        assert answer.headers["Content-Type"] == "application/vnd.oai.openapi+json"
        assert answer.headers["Content-Disposition"] == 'inline; filename="Caller ID.json"'
    assert (client.head("/schema").content, client.post("/schema").status_code) == (b"", 405)


def test_every_status_of_the_contract_has_an_example(operation: Any) -> None:
    assert set(operation["responses"]) == CONTRACT | {"405", "413", "415", "503"}
    for response in operation["responses"].values():
        assert response["content"]["application/json"]["examples"]
        assert "X-Request-ID" in response["headers"]


def test_every_example_conforms(schema: Any, operation: Any) -> None:
    for status, response in operation["responses"].items():
        for example in response["content"]["application/json"]["examples"].values():
            conforms(schema, "SearchResponse" if status == "200" else "ErrorResponse", example["value"])
    for example in operation["requestBody"]["content"]["application/json"]["examples"].values():
        conforms(schema, "SearchRequest", example["value"])


@pytest.mark.parametrize("sources", ["Knows", "KnowsName", "KnowsNothing"])
def test_answers_conform_and_have_only_declared_fields(
    integrator: Integrator, settings: Any, schema: Any, sources: str
) -> None:
    settings.SOURCE_A = settings.SOURCE_B = f"tests.connectors.{sources}"
    answer = integrator.search().json()
    conforms(schema, "SearchResponse", answer)
    declared = schema["components"]["schemas"]
    assert answer.keys() == declared["SearchResponse"]["properties"].keys()
    assert answer["data"].keys() == declared["SearchData"]["properties"].keys()
    assert answer["data"]["source_a"].keys() <= declared["SourceA"]["properties"].keys()
    assert answer["data"]["source_b"].keys() <= declared["SourceB"]["properties"].keys()


def test_headers_that_are_sent_are_described(integrator: Integrator, operation: Any) -> None:
    described = {status: set(response["headers"]) for status, response in operation["responses"].items()}
    ours = {"RateLimit-Policy", "RateLimit", "Server-Timing", "Idempotent-Replayed", "Retry-After", "WWW-Authenticate"}
    for response in (
        integrator.search(Idempotency_Key="k"),
        integrator.search(Idempotency_Key="k"),
        integrator.search("x"),
        integrator.post("{}"),
        integrator.post("{}", "text/plain"),
    ):
        assert set(response.headers) & ours <= described[str(response.status_code)]


def test_limits_are_those_of_the_settings() -> None:
    limits = {"RATE_LIMIT": "7/h", "AUTH_FAILURE_RATE": "11/s"}
    command = [sys.executable, "manage.py", "spectacular", "--format", "openapi-json"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | limits, capture_output=True, text=True, check=True)
    refused = json.loads(done.stdout)["paths"]["/callerid/search"]["post"]["responses"]["429"]
    assert "More than 7 requests by this token within 3600 seconds" in refused["description"]
    assert "more than 11 requests without a valid token from one address within 1 seconds" in refused["description"]
    assert '"token";q=7;w=3600' in refused["headers"]["RateLimit-Policy"]["description"]


def test_success_is_a_boolean_for_generators(schema: Any) -> None:
    """A constant becomes a string in the clients of openapi-generator 7.26 (test_generated_client.py)."""
    assert schema["components"]["schemas"]["SearchResponse"]["properties"]["success"]["type"] == "boolean"
    assert '"const"' not in json.dumps(schema)


def test_the_docs_page_loads_nothing_from_other_hosts(client: Client) -> None:
    page, script = client.get("/docs").content.decode(), client.get("/docs?script=").content.decode()
    assert "swagger-ui" in page
    assert "/schema" in script
    assert not re.findall(r"https?://|//cdn", page + script)


@pytest.mark.django_db
def test_the_docs_assets_are_bundled(client: Client) -> None:
    page = client.get("/docs").content.decode()
    assets = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
    assert len(assets) >= 3
    for asset in assets:
        response = client.get(asset)
        response.close()
        assert response.status_code == 200, asset
