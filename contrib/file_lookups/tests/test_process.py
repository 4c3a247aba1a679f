"""Files that users of the console look up, against a real service: the process is run by the tests."""

import csv
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests import plugin
from tests.service import Service

pytestmark = pytest.mark.slow

KNOWS = {"SOURCE_A": "tests.connectors.Knows", "SOURCE_B": "tests.connectors.Knows"}
#: Reserved for fiction.
NUMBERS = [f"12125550{n}" for n in range(100, 200)]
_UPLOAD = """
from django.contrib.auth.models import User
from contrib.uploads import uploads
uploads.run_waiting = lambda: None
user, _ = User.objects.get_or_create(username="olga", defaults={{"is_superuser": True}})
content = {content!r}
options = {options!r}
upload = uploads.begin(user=user, kind="lookup", file_name="numbers.csv", size=len(content), options=options)
uploads.append(upload, offset=0, content=content)
print(upload.pk)
"""
_DO = """
from accounts.models import ApiToken
from contrib.uploads import background_process
from contrib.file_lookups import services
from contrib.file_lookups.models import FileLookup
from contrib.uploads.models import ImportUpload
background_process.start = lambda *arguments: print(*arguments)
lookup = FileLookup.objects.last()
{step}
"""


class Desk:
    """What an operator does with the service."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def shell(self, step: str) -> str:
        return self.service.manage("shell", "-v0", "-c", _DO.format(step=step)).strip()

    def token(self, *arguments: str) -> str:
        return self.service.manage("create_token", "file", *arguments, "--quiet").strip()

    def upload(self, content: bytes, **options: str) -> subprocess.CompletedProcess[str]:
        step = _UPLOAD.format(content=content, options=options)
        upload_id = self.service.manage("shell", "-v0", "-c", step).strip()
        return self.service.run_command("process_import", upload_id)

    def start(self) -> "subprocess.Popen[str]":
        """At the expense of the first token."""
        where = f"url={self.service.url!r}, host='localhost'"
        step = f"services.start(lookup, token=ApiToken.objects.get(pk=1), by=lookup.user, {where})"
        arguments = self.shell(step).split()
        return subprocess.Popen(
            [sys.executable, "manage.py", *arguments],
            cwd=plugin.ROOT,
            env=self.service.env,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self) -> str:
        self.start().communicate()
        return self.shell("print(lookup.state, lookup.error)")

    def rows(self) -> list[list[str]]:
        lines = json.loads(self.shell("import json; print(json.dumps(''.join(services.csv_lines(lookup))))"))
        return list(csv.reader(lines.removeprefix("\ufeff").splitlines()))

    def balance(self) -> int:
        return int(self.shell("print(lookup.token.credits)"))

    def answered(self) -> int:
        return int(self.shell("print(lookup.rows.filter(outcome='found').count())"))


@pytest.fixture
def desk(serve: Callable[..., Service]) -> Callable[..., Desk]:
    return lambda **environment: Desk(serve(**{"RATE_LIMIT": "100000/m", **KNOWS, **environment}))


def test_file_is_charged_and_logged_like_searches(desk: Any) -> None:
    at = desk()
    at.token("--credits", "10")
    content = f'name,phone\n"مَخْبَزُ, א",+{NUMBERS[0]}\nx,12\ny,{NUMBERS[1]}\nz,{NUMBERS[0]}\n'.encode()
    assert at.upload(content).returncode == 0
    assert at.shell("print(lookup.state, ImportUpload.objects.count())") == "ready 0"
    assert at.run() == "done"
    header, *rows = at.rows()
    assert header == ["name", "phone", "searched_number", "outcome", "name_a", "location_a", "name_b", "spam_b"]
    assert rows[0][:5] == ["مَخْبَزُ, א", f"+{NUMBERS[0]}", NUMBERS[0], "found", "Local Name"]
    assert [row[3] for row in rows] == ["found", "invalid", "found", "found"]
    assert at.balance() == 8
    at.service.manage("audit_credits")
    log = at.service.log()
    assert log.count("/callerid/search") == 0
    assert log.count("view=search") + log.count('"view": "search"') == 2
    assert not any(number in log for number in NUMBERS)
    assert log.count("look-up-1") >= 2
    assert "eyJ" not in log
    assert at.shell(f"print(services.erase(['{NUMBERS[0]}']), lookup.rows.count())") == "2 2"


def test_killed_and_stopped_runs_pay_for_each_number_once(desk: Any) -> None:
    at = desk()
    at.token("--credits", "1000")
    at.upload("\n".join(NUMBERS).encode())
    process = at.start()
    while at.answered() < 1:
        assert process.poll() is None
    process.kill()
    process.communicate()
    # An answer that was paid for was not stored.
    at.shell("lookup.rows.filter(pk=lookup.rows.filter(outcome='found').first().pk).update(outcome='pending')")
    at.shell("FileLookup.objects.update(seen_at='2026-01-01T00:00:00Z'); services.end_killed()")
    assert at.shell("print(lookup.state, lookup.error)") == "stopped Interrupted."
    assert at.run() == "done"
    assert (at.answered(), at.balance()) == (100, 900)


def test_stop_ends_the_process_and_a_new_one_takes_over(desk: Any) -> None:
    at = desk(RATE_LIMIT="5/m")
    at.token("--credits", "1000")
    at.upload("\n".join(NUMBERS).encode())
    process = at.start()
    while at.answered() < 5:  # then it waits for the rate limit
        assert process.poll() is None
    while at.shell("print(lookup.waits_until)") == "None":  # the page says until when
        assert process.poll() is None
    at.shell("services.stop(lookup)")
    other = at.start()
    process.communicate(timeout=60)  # although the state is the same again
    assert other.poll() is None
    assert at.balance() == 995
    # The new process learns the state of the limit from its first request, which is refused and not counted.
    while at.service.log().count("status=429") + at.service.log().count('"status": 429') < 1:
        assert other.poll() is None
    other.send_signal(signal.SIGTERM)
    other.communicate()
    assert at.shell("print(lookup.state, lookup.error)") == "stopped Interrupted."


def test_no_credits_and_revocation_stop_it(desk: Any) -> None:
    at = desk()
    at.token("--credits", "2")
    at.upload("\n".join(NUMBERS[:4]).encode())
    assert at.run() == "stopped The token has no credits left: top it up."
    assert [row[2] for row in at.rows()[1:]] == ["found", "found", "pending", "pending"]
    at.service.manage("top_up", "1", "1", "--note", "more")
    at.service.manage("rotate_token", "1")
    assert at.run() == "stopped The token has no credits left: top it up."
    assert at.answered() == 3
    at.service.manage("revoke_token", "1")
    assert at.run() == "stopped The service refused the token: it is wrong, expired or revoked."


def test_test_token_costs_nothing(desk: Any) -> None:
    at = desk()
    at.token("--test")
    at.upload(b"12125550103\n12125550104\n")
    assert at.run() == "done"
    assert [row[2] for row in at.rows()[1:]] == ["found", "not_found"]


def test_unreadable_file_leaves_nothing(desk: Any) -> None:
    at = desk()
    at.token("--test")
    assert at.upload(b"a,b\n1,2\n").returncode == 1
    error = "numbers.csv: the first line names no column 'number': choose the column (--column)."
    assert at.shell("print(lookup, ImportUpload.objects.get().error)") == f"None {error}"
