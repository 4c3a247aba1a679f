"""Outside oracle: openapi-generator's Python client, made from `docs/openapi.yaml`, reads every documented answer.

The generator brings its own Java; requirements/oracles.lock has both. With CALLERID_REQUIRE_CLIENTS set, their absence
is a failure.
"""

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from tests.plugin import ROOT
from tests.service import Service
from tests.upstream import Upstream, says

pytestmark = pytest.mark.once

DOCUMENT = ROOT / "docs" / "openapi.yaml"
PACKAGE = "generated_client"
NUMBER = "493023125555"
RESPONSES = yaml.safe_load(DOCUMENT.read_text(encoding="utf-8"))["paths"]["/callerid/search"]["post"]["responses"]
#: Status and body of each example.
EXAMPLES = [
    (int(status), example["value"])
    for status, response in RESPONSES.items()
    for example in response["content"]["application/json"]["examples"].values()
]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The generated package."""
    if not os.environ.get("CALLERID_REQUIRE_CLIENTS"):
        pytest.importorskip("openapi_generator_cli")
    directory = tmp_path_factory.mktemp("generated")
    generator = importlib.import_module("openapi_generator_cli")
    options = ["generate", "-g", "python", "-i", str(DOCUMENT), "-o", str(directory), "--package-name", PACKAGE]
    assert generator.run(options).returncode == 0
    sys.path.insert(0, str(directory))
    try:
        yield importlib.import_module(PACKAGE)
    finally:
        sys.path.remove(str(directory))
        for module in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
            del sys.modules[module]


def search(client: Any, url: str, token: str, **headers: str) -> Any:
    with client.ApiClient(client.Configuration(host=url)) as connection:
        request = client.SearchRequest(api_key=token, query=NUMBER)
        return client.CalleridApi(connection).search(request, **headers)


@pytest.mark.parametrize(("status", "body"), EXAMPLES)
def test_generated_client_reads_each_documented_answer(
    client: Any, vendor: Callable[..., Upstream], status: int, body: dict[str, Any]
) -> None:
    url = vendor(says(body, status)).url
    if status == 200:
        assert search(client, url, "a.b.c").to_dict() == body
    else:
        with pytest.raises(client.ApiException) as raised:
            search(client, url, "a.b.c")
        assert (raised.value.status, raised.value.data.to_dict()) == (status, body)


def test_generated_client_makes_a_search(client: Any, serve: Callable[..., Service]) -> None:
    service = serve()
    service.manage("set_rule", NUMBER, "--spam", "yes", "--name", "Musterhaus Advisors")
    token = service.manage("create_token", "generated", "--credits", "2", "--quiet").strip()
    answer = search(client, service.url, token, idempotency_key="call-1", x_request_id="request-1")
    assert (answer.success, answer.credits_remaining) == (True, 1)
    assert answer.data.source_b.to_dict() == {"name": "Musterhaus Advisors", "spam": True}
    with pytest.raises(client.ApiException) as raised:
        search(client, service.url, "a.b.c")
    assert (raised.value.status, raised.value.data.detail) == (401, "Invalid or missing token")
