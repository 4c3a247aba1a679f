"""integrations/check.sh, the check of Kamailio's and 3CX's settings."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import plugin
from tests.integrations.answers import ERRORS, answer
from tests.servers import Unavailable, free_port, required
from tests.upstream import Upstream, hangs, raw, says

pytestmark = [pytest.mark.once, pytest.mark.slow]

StartVendor = Callable[..., Upstream]
SCRIPT = plugin.ROOT / "integrations" / "check.sh"


def check(*arguments: str, **settings: str) -> tuple[int, str]:
    """Exit code and output."""
    environment = {f"CALLERID_{name}": value for name, value in settings.items()}
    with required():
        if shutil.which("curl") is None:
            raise Unavailable("there is no curl on PATH")
    done = subprocess.run(
        [str(SCRIPT), *arguments],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_check_says_what_is_wrong(vendor: StartVendor) -> None:
    http = vendor(says(answer("Example Bakery")))
    assert check(URL=http.url, TOKEN="a.b.c") == check(URL=f"{http.url}/", TOKEN="a.b.c") == (0, "OK, 9 credits left\n")
    assert [json.loads(body) for body in http.bodies] == [{"api_key": "a.b.c", "query": "12025550143"}] * 2
    assert all(head.startswith(b"POST /callerid/search HTTP/1.1") for head in http.heads)
    assert check(URL=http.url) == (1, "CALLERID_TOKEN is not set\n")
    code, said = check(URL=f"http://127.0.0.1:{free_port()}", TOKEN="a.b.c")
    assert (code, said[:17]) == (1, "status 7: Failed ")
    for address in ("callerid.example.org", "https://", "ftp://callerid.example.org"):
        assert check(URL=address, TOKEN="a.b.c") == (
            1,
            "CALLERID_URL is not an address such as https://callerid.example.org\n",
        )
    for behaviour, expected in (
        (raw(b"<html>Sign in</html>"), "not an answer of the service"),
        (hangs, "status 28: no answer in time"),
        *((says({"detail": detail}, status), f"status {status}") for status, detail in ERRORS.items()),
    ):
        http.behave_as(behaviour)
        assert check(URL=http.url, TOKEN="a.b.c") == (1, f"{expected}\n")


def test_check_reads_a_file_of_settings(vendor: StartVendor, tmp_path: Path) -> None:
    http = vendor(says(answer("Example Bakery")))
    settings = tmp_path / "callerid"
    settings.write_text(f'CALLERID_SPAM_MARK="[Spam] "\nCALLERID_TOKEN=a.b.c\nCALLERID_URL="{http.url}/"\n')
    assert check(str(settings), TOKEN="of the environment") == (0, "OK, 9 credits left\n")
    assert json.loads(http.bodies[0])["api_key"] == "a.b.c"
    assert check(str(tmp_path / "none")) == (1, f"cannot read {tmp_path / 'none'}\n")


def test_docs_list_what_the_checks_say() -> None:
    page = (plugin.ROOT / "docs" / "telephone-systems.md").read_text(encoding="utf-8")
    sources = [
        path
        for path in SCRIPT.parent.rglob("*")
        if path.suffix in (".py", ".lua", ".module", ".cfg", ".sh", ".json", ".yaml")
    ]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    before = r"(?:NoAnswer\(|reason = |Exception\(|no name, |finish 1 |said = |return )"
    said = re.findall(before + r"""\\?["']?([A-Za-z]\w* [\w ]+)["'\\]""", text)
    assert {
        "no answer in time",
        "mod_curl is not loaded",
        "Token is not set",
        "the caller withholds the number",
    } <= set(said)
    said += [f"{name} is not an address" for name in ("CALLERID_URL", "URL")]
    assert [reason for reason in said if f"`{reason}" not in page] == []


def test_shellcheck_accepts_the_check() -> None:
    with required():
        if shutil.which("shellcheck") is None:
            raise Unavailable("there is no shellcheck on PATH")
    done = subprocess.run(["shellcheck", str(SCRIPT)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
