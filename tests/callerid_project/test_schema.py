"""The service describes itself, truly and without asking anybody else."""

import re
from typing import Any

import jsonschema
import pytest
from django.core.management import call_command
from django.test import Client

from tests.api import Integrator

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


def test_it_is_openapi_3_1_and_valid(schema: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert schema["openapi"].startswith("3.1")
    assert list(schema["paths"]) == ["/callerid/search"]
    call_command("spectacular", "--validate", "--fail-on-warn")
    assert "Error" not in capsys.readouterr().err


def test_every_status_of_the_contract_is_there_with_an_example(operation: Any) -> None:
    assert set(operation["responses"]) == CONTRACT | {"413", "415"}
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


def test_the_docs_page_asks_no_other_host(client: Client) -> None:
    page, script = client.get("/docs").content.decode(), client.get("/docs?script=").content.decode()
    assert "swagger-ui" in page
    assert "/schema" in script
    assert not re.findall(r"https?://|//cdn", page + script)


def test_the_docs_assets_are_bundled(client: Client) -> None:
    page = client.get("/docs").content.decode()
    assets = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
    assert len(assets) >= 3
    for asset in assets:
        response = client.get(asset)
        response.close()
        assert response.status_code == 200, asset
