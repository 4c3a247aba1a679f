"""The calls in docs/try-it.md, docs/api.md and docs/credits.md work as printed, and answer what is printed."""

import json
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest

from tests.plugin import ROOT
from tests.servers import Unavailable, required
from tests.service import Service, serving

pytestmark = [pytest.mark.once, pytest.mark.slow]

# The part of the numbering plan that the answers need: loading all of it takes long.
_FILL = """
from accounts import tokens
from phonebook.imports.sample_data import load_sample_data
from phonebook.models import Country, NumberPrefix
load_sample_data()
NumberPrefix.objects.create(prefix=4930, place="Berlin")
Country.objects.create(code="DE", name="Germany")
print(tokens.issue(name="demo", initial_credits=1000, actor="test").api_key)
"""

#: For each language of a code block: the programs that may run it from standard input, and their arguments.
PROGRAMS = {
    "sh": (("sh",), ()),
    "python": ((sys.executable,), ("-",)),
    "js": (("node", "nodejs"), ("--input-type=module", "-")),
    "php": (("php",), ()),
}


def blocks(page: str) -> list[tuple[str, str]]:
    """The language and the code of each block of a page."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = re.findall(r"^( *)```(\w+)\n(.*?)^\1```", text, re.MULTILINE | re.DOTALL)
    return [(language, textwrap.dedent(code)) for _, language, code in found]


CALLS = [
    pytest.param(language, code, id=f"{page}-{language}")
    for page in ("try-it.md", "api.md", "credits.md")
    for language, code in blocks(page)
    if "/callerid/search" in code and language in PROGRAMS
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str]]:
    shared = tmp_path_factory.getbasetemp()
    with serving(tmp_path_factory.mktemp("calls"), {"DATABASE_URL": "", "REDIS_URL": ""}, shared=shared) as service:
        yield service, service.manage("shell", "--no-imports", "-c", _FILL).strip()


@pytest.mark.parametrize(("language", "code"), CALLS)
def test_documented_call_works_as_printed(service: tuple[Service, str], language: str, code: str) -> None:
    served, token = service
    names, arguments = PROGRAMS[language]
    with required():
        program = next(filter(None, map(shutil.which, names)), None)
        if program is None:
            raise Unavailable(f"there is no {names[0]} on PATH")
    code = code.replace("http://127.0.0.1:8000", served.url).replace("<API_KEY>", token)
    done = subprocess.run([program, *arguments], input=code, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "Musterhaus Advisors" in done.stdout or "Acme Anvils & Co." in done.stdout, done.stdout


@pytest.mark.parametrize("page", ["index.md", "try-it.md", "api.md", "../README.md"])
def test_documented_answer_is_what_the_service_answers(service: tuple[Service, str], page: str) -> None:
    import requests

    served, token = service
    (documented,) = [json.loads(code) for language, code in blocks(page) if language == "json"]
    body = {"api_key": token, "query": documented["data"]["phone_number"]}
    answer = requests.post(f"{served.url}/callerid/search", json=body, timeout=30).json()
    for part in (documented, answer):
        assert isinstance(part.pop("credits_remaining"), int)
    assert answer == documented


def test_the_pages_have_calls_in_each_language() -> None:
    assert {param.values[0] for param in CALLS} == PROGRAMS.keys()
