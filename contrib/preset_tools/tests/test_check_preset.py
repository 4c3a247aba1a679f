"""`check_preset`: all presets, and one with its samples, a recorded reply and a real call."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from lookup.connectors import registry
from tests import upstream
from tests.lookup.commands.test_sources import run
from tests.mock_vendors import Vendors

pytestmark = pytest.mark.django_db
NUMBER = "12025550123"


def test_samples_of_all_presets_run_offline(vendors: Vendors, capsys: pytest.CaptureFixture[str]) -> None:
    out, _, failed = run(capsys, "check_preset", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert {row["preset"] for row in rows} == set(registry.presets())
    assert {"twilio", "mock_a", "mock_b"} <= {row["preset"] for row in rows}
    assert all(row["ok"] and row["samples"] >= 3 for row in rows)
    assert (failed, vendors.a.connections) == ("", 0)


FAULTS = {
    "not TOML": ("title = ", "title = = ", "not TOML"),
    "a sample read otherwise": ('is = "not_found"', 'is = "quota"', "expected not_found, got quota"),
    "another name in a sample": (
        'name = "Example Bakery", location',
        'name = "B", location',
        "expected {'name': ",
    ),
    "a when that is no truth value": ("known == `false`", "name", "the preset's `when`: `name` is neither"),
    "a secret of the service's": ("MINE_KEY", "SECRET_KEY", "must begin with MINE_"),
    "a request nobody can send": ("[request]", '[request]\nheaders = { A = "b\\nc" }', "printable ASCII"),
    "a rule that no sample reaches": (
        'status = 404\nexpect = { outcome = "not_found" }',
        'status = 410\nexpect = { outcome = "bad_response" }',
        "no sample reaches outcome 3 (counted from 1)",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_preset_fault_is_reported_with_and_without_its_name(
    mine: Any, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    old, new, told = FAULTS[fault]
    file = mine((old, new))
    out, _, failed = run(capsys, "check_preset")
    assert told in out.splitlines()[1]
    assert failed == "1 of 1 failed."
    for name in ("mine", str(file)):
        out, _, failed = run(capsys, "check_preset", name)
        assert failed
        assert told in out + failed
    call_command("check")  # no slot uses it, so no other command is stopped


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("directory", "directory is a built-in source"),
        ("secret", "SECRET_KEY is a setting of the service itself."),
    ],
)
def test_preset_with_a_name_in_use_is_reported(
    mine: Any, capsys: pytest.CaptureFixture[str], name: str, told: str
) -> None:
    mine(name=name)
    assert told in run(capsys, "check_preset")[0]
    assert told in run(capsys, "check_preset", name)[2]


def test_rule_by_status_alone_is_shown(mine: Any, capsys: pytest.CaptureFixture[str]) -> None:
    mine()
    out, _, failed = run(capsys, "check_preset")
    assert out.splitlines()[1].endswith("ok (whatever the body: outcome 3)")
    assert failed == ""


@pytest.mark.parametrize(
    ("auth", "request_line"),
    [
        (
            'query = { api_key = "MINE_KEY", api_secret = "MINE_SECRET" }',
            "https://secret.example.com/v1/secret/%2B12025550123?fields=name&fields=place&api_key=&api_secret=",
        ),
        ('path = "MINE_KEY"', "https://secret.example.com/v1/secret//%2B12025550123?fields=name&fields=place"),
    ],
)
def test_secrets_are_masked_by_position_not_by_value(
    mine: Any, capsys: pytest.CaptureFixture[str], auth: str, request_line: str
) -> None:
    path = "v1/secret/{key}/{e164}" if auth.startswith("path") else "v1/secret/{e164}"
    file = mine(
        ("vendor.example.com/v1/callers/{e164}", f"secret.example.com/{path}"),
        ('headers = { X-Key = "MINE_KEY" }', auth),
    )
    text = re.sub(r"GET https://\S+?(?=\")", f"GET {request_line}", file.read_text(encoding="utf-8"))
    file.write_text(text, encoding="utf-8")
    assert run(capsys, "check_preset")[2] == ""


# --- One preset -----------------------------------------------------------------------------------------------------


def test_preset_shows_its_request_and_samples(mine: Any, capsys: pytest.CaptureFixture[str]) -> None:
    file = mine(
        ('headers = { X-Key = "MINE_KEY" }', 'headers = { X-Key = "MINE_KEY" }\nbasic = ["MINE_ID", "MINE_PW"]')
    )
    out, err, failed = run(capsys, "check_preset", str(file))
    request, _, table = out.partition("\n\n")
    assert request.splitlines() == [
        "GET https://vendor.example.com/v1/callers/%2B12025550123?fields=name&fields=place",
        "X-Key: MINE_KEY",
        "Authorization: Basic MINE_ID:MINE_PW (in base64)",
    ]
    assert re.search(r"^found +200 +2 +found +name=Example Bakery, location=Springfield, IL$", table, re.MULTILINE)
    assert (err, failed) == ("", "")
    assert run(capsys, "check_preset", "mine")[0] == out


RECORDED = (
    b"""HTTP/1.1 301 Moved Permanently\r\nLocation: /x\r\n\r\nHTTP/2 200 \r\ncontent-type: application/json\r\n\r\n"""
)
GOOD = json.dumps(upstream.GOOD_A).encode()


@pytest.mark.parametrize("content", [RECORDED + GOOD, RECORDED.replace(b"\r", b"") + GOOD, GOOD])
def test_recorded_reply_is_read(mine: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes) -> None:
    reply = tmp_path / "reply.txt"
    reply.write_bytes(content)
    out, _, failed = run(capsys, "check_preset", str(mine()), "--reply", str(reply), "--json")
    row = json.loads(out)
    assert (row["status"], row["rule"], row["outcome"], failed) == (200, 2, "found", "")
    assert row["fields"] == {"name": "Example Bakery", "location": "Springfield, IL"}


def test_real_call_is_made_once_and_masks_the_key(
    mine: Any, vendors: Vendors, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(mine())
    monkeypatch.setenv("MINE_BASE_URL", vendors.a.url)
    monkeypatch.setenv("MINE_KEY", "a-key-of-mine")
    out, _, failed = run(capsys, "check_preset", file, "--number", "+1 202 555 0123")
    assert "name=Example Bakery" in out
    assert ("a-key-of-mine" in out, failed, len(vendors.a.heads)) == (False, "", 1)
    assert b"X-Key: a-key-of-mine" in vendors.a.heads[0]
    vendors.a.behave_as(upstream.says({"message": "no"}, 401))
    out, _, failed = run(capsys, "check_preset", file, "--number", NUMBER)
    assert re.search(r"^12025550123 +401 +- +auth +401: MINE_KEY is rejected$", out, re.MULTILINE)
    assert failed == "1 of 1 failed."
    vendors.a.behave_as(upstream.resets)
    out, _, failed = run(capsys, "check_preset", file, "--number", NUMBER, "--json")
    assert (json.loads(out)["outcome"], failed) == ("failed", "1 of 1 failed.")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nothing.toml"], "nothing.toml: no such file, and no preset of this name is shipped or in PRESET_DIR ("),
        (["mien"], ". The nearest name is mine."),
        (["mine", "--reply", "nothing.txt"], "nothing.txt: No such file or directory."),
        (["mine", "--reply", "{bad}"], "the first line has no status."),
        (["mine", "--number", "12"], "--number: invalid phone number"),
        (["mine", "--number", "4930231250"], "The number is outside the preset's coverage"),
        (["--number", NUMBER], "--reply and --number need FILE."),
    ],
)
def test_wrong_arguments_are_told(
    mine: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], told: str
) -> None:
    mine(("[fields]", '[coverage]\nregions = ["US"]\n\n[fields]'))
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"HTTP/1.1 what\r\n\r\n{}")
    assert told in run(capsys, "check_preset", *(each.replace("{bad}", str(bad)) for each in arguments))[2]


def test_rule_that_never_applies_is_named(mine: Any, capsys: pytest.CaptureFixture[str]) -> None:
    rule = '[[outcome]]\nstatus = [404]\nwhen = "code == \'x\'"\nis = "invalid_number"\n\n[fields]'
    mine(("[fields]", rule))
    told = "no sample reaches outcome 4 (counted from 1)"
    assert told in run(capsys, "check_preset")[0]
    assert told in run(capsys, "check_preset", "mine")[2]


def test_preset_without_samples_can_be_tried(mine: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = mine()
    file.write_text(file.read_text(encoding="utf-8").partition("[[sample]]")[0], encoding="utf-8")
    (tmp_path / "reply.json").write_bytes(GOOD)
    assert run(capsys, "check_preset", "mine", "--reply", str(tmp_path / "reply.json"))[2] == ""
    out, _, failed = run(capsys, "check_preset", "mine")
    assert out.startswith("GET https://vendor.example.com/")
    missing = "no sample of found; no sample of not found; no sample of an error; no sample reaches outcome 1, 2, 3"
    assert missing in failed
    assert missing in run(capsys, "check_preset")[0]


def test_unset_preset_dir_is_named(capsys: pytest.CaptureFixture[str], settings: Any) -> None:
    settings.PRESET_DIR = ""
    told = run(capsys, "check_preset", "twilo")[2]
    assert told.endswith("is shipped or in PRESET_DIR (not set). The nearest name is twilio.")


# --- What a wrong expression gives -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("known == `false`", "known == 'false'", "expected not_found, got bad_response; outcome[1].when gives false"),
        (
            "contains(keys(@), 'name')",
            "contains(keys(a), 'name')",
            "; outcome[2].when gives an error (In function keys",
        ),
        ("contains(keys(@), 'name')", "contains(name, 'x') && name", 'outcome[2].when gives "Example Bakery", neither'),
        ('["[city, state]"]', '["city == state"]', "; fields.location[1] gives false, not text"),
        ('["[city, state]"]', '["[city, `5`]"]', 'fields.location[1] gives ["Springfield", 5], not text'),
        ('["[city, state]"]', '["town", "[town, land]"]', "gives null; fields.location[2] gives [null, null]"),
    ],
)
def test_sample_that_is_read_wrongly_shows_what_expressions_give(
    mine: Any, capsys: pytest.CaptureFixture[str], old: str, new: str, told: str
) -> None:
    mine((old, new))
    assert told in run(capsys, "check_preset")[0]
    assert told in run(capsys, "check_preset", "mine")[0]


def test_spam_rule_that_is_not_boolean_is_shown(mine: Any, capsys: pytest.CaptureFixture[str]) -> None:
    spam = "[fields.spam]\nnever = \"a\"\nyes = ['city']\nknown = ['a']"
    mine(('location = ["[city, state]"]', spam), (', location = "Springfield, IL" }', ", spam = true }"))
    told = 'fields.spam.never gives null; fields.spam.yes[1] gives "Springfield", neither true, false nor null; '
    assert told in run(capsys, "check_preset", "mine")[0]


def test_request_with_the_value_of_a_secret_says_what_to_write(mine: Any, capsys: pytest.CaptureFixture[str]) -> None:
    change = ('headers = { X-Key = "MINE_KEY" }', 'query = { key = "MINE_KEY" }')
    mine(change, ("fields=name&fields=place", "fields=name&fields=place&key=MY-KEY"))
    out = run(capsys, "check_preset", "mine")[0]
    assert "&fields=place&key= instead of GET " in out
    assert "write `request` without the values of secrets, as in ?key=" in out


# --- A recorded reply that is not read -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "told", "fails"),
    [
        (
            b'{"known":"false"}',
            "no rule of the preset applies to its answer; outcome[1].when gives false; outcome[2].when gives false",
            True,
        ),
        (b'{"name":"Bakery","city":5}', "name=Bakery; fields.location[1] gives [5, null], not text", False),
        (b'{"name":7}', "fields.name[1] gives 7, not text", True),
        (b'HTTP/1.1 401 \r\n\r\n{"a":1}', "401: MINE_KEY is rejected\n", False),
    ],
)
def test_reply_that_is_not_read_shows_what_expressions_give(
    mine: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes, told: str, fails: bool
) -> None:
    mine()
    (tmp_path / "reply").write_bytes(content)
    out, err, failed = run(capsys, "check_preset", "mine", "--reply", str(tmp_path / "reply"))
    assert told in out
    assert ("has no status line: status 200 is assumed." in err) == (not content.startswith(b"HTTP/"))
    assert failed == ("1 of 1 failed." if fails else "")
