"""An invalid preset is reported when it is read: which file, which key, what is wrong."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from lookup.vendors import preset
from lookup.vendors.expressions import Expression, Template
from tests.mock_vendors import PRESETS

MOCK_A = (PRESETS / "mock_a.toml").read_text(encoding="utf-8")
AUTH = 'headers = { X-Key = "MOCK_A_KEY" }'
URL = 'url = "https://vendor.example.com'
MOCK_B = (PRESETS / "mock_b.toml").read_text(encoding="utf-8")


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., preset.Preset]:
    def written(text: str, name: str = "mock_a.toml") -> preset.Preset:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return preset.load(tmp_path / name)

    return written


@pytest.mark.parametrize(
    ("old", "new", "key", "problem"),
    [
        (
            "title =",
            "titel =",
            "",
            "unknown field `titel`; allowed: title, documentation, evidence, source, request, outcome,",
        ),
        ("status = [404]", "stat = [404]", "outcome[3]", "unknown field `stat`; allowed: is, status, when, text, fix,"),
        (
            "[fields]",
            "[fields.spam]\nno = ['a']\n[fields]",
            "fields.spam",
            "unknown field `no`; allowed: yes, known, never",
        ),
        (
            AUTH,
            "oauth2 = { uri = 'x' }",
            "auth.oauth2",
            "unknown field `uri`; allowed: url, id, secret, params, in_form",
        ),
        ("title =", "= =", "", "not TOML"),
        ("[auth]", "[oauth]", "", "unknown field `oauth`"),
        ('evidence = "V"', 'evidence = "X"', "evidence", "'X', which is none of K, M, T, V"),
        ('evidence = "V"', 'evidence = "V"\nname = "x"', "name", "set by the service"),
        ('evidence = "V"', 'evidence = "V"\nfingerprint = "x"', "fingerprint", "set by the service"),
        ("{e164}", "{e165}", "request.url", "{e165} is none of e164, "),
        ("[request]", '[request]\nheaders = { X-A = "a", X-B = "{e}" }', "request.headers.X-B", "sha1_e164"),
        (AUTH, 'headers = { X-A = "MOCK_A_KEY", X-B = 5 }', "auth.headers.X-B", "Expected `str`, got `int`"),
        ("{e164}", "{e164", "request.url", "expected '}'"),
        ("{e164}", "{key}", "", "{key} in request.url requires auth.path"),
        (URL, URL.replace("https", "http"), "request", "https:// is required"),
        (URL, 'url = "vendor.example.com', "request", "must begin with https://"),
        (URL, 'url = "https://{e164}.example.com', "request", "the host in url is fixed"),
        (URL, 'url = "https://me:pw@vendor.example.com', "request", "the host in url is fixed"),
        ("callers/{e164}", "callers?n={e164}", "request", "write the query under request.query"),
        ("[request]", '[request]\nmethod = "DELETE"', "request.method", "Invalid enum value 'DELETE'"),
        ("[request]", "[request]\njson = {}", "request", "a GET request has no body"),
        ("[request]", '[request]\nmethod = "POST"\njson = { n = "{e999}" }', "request", "{e999} is none of"),
        ("[request]", '[request]\nmethod = "POST"\njson = {}\nform = { a = "b" }', "request", "mutually exclusive"),
        ("[request]", '[request]\nheaders = { X = "line\\nbreak" }', "request", "not printable ASCII"),
        ("[request]", '[request]\nheaders = { X = "{key}" }', "", "{key} is only allowed in the path"),
        ('["name", "place"]', "[1]", "request.query.fields", "Expected `str`, got `int`"),
        ("MOCK_A_KEY", "OTHER_KEY", "", "must begin with MOCK_A_"),
        ("MOCK_A_KEY", "mock a key", "auth", "not the name of an environment variable"),
        (AUTH, 'path = "MOCK_A_KEY"\noptional = true', "auth", "cannot be optional"),
        (URL, 'url = "https://vendor.example.com:99999', "request", "Port out of range"),
        (URL, 'url = "https://vendor example.com', "request", "host or port"),
        ("[request]", '[request]\nheaders = { "X Y" = "b" }', "request.headers", "matching regex"),
        ("[request]", '[request]\nmethod = "POST"\njson = { n = nan }', "request", "what JSON cannot express"),
        ("[request]", '[request]\nmethod = "POST"\njson = { n = 2026-01-01 }', "request", "what JSON cannot express"),
        (AUTH, 'bearer = "MOCK_A_T"\nbasic = ["MOCK_A_S", "MOCK_A_T"]', "auth", "one of basic, bearer"),
        (AUTH, 'bearer = "MOCK_A_T"\nheaders = { authorization = "MOCK_A_S" }', "auth", "one of basic, bearer"),
        (AUTH, 'oauth2 = { url = "http://x.example", id = "MOCK_A_I", secret = "MOCK_A_S" }', "auth", "https://"),
        (AUTH, 'oauth2 = { url = "https://a:b@x.example", id = "MOCK_A_I", secret = "MOCK_A_S" }', "auth", "no user"),
        (AUTH, 'oauth2 = { url = "https://x.example", id = "MOCK_A_I", secret = "p w" }', "auth", "not the name of"),
        (AUTH, 'oauth2 = { url = "https://x.example", id = "MOCK_A_I" }', "auth.oauth2", "missing required field"),
        (AUTH, 'json = { k = "MOCK_A_KEY" }', "", "auth.json requires a table json"),
        ("known == `false`", "known == ", "outcome[1].when", "not JMESPath"),
        ("known == `false`", "knows(@)", "outcome[1].when", "no function knows()"),
        ("known == `false`", "join(', ', [nope(@)])", "outcome[1].when", "no function nope()"),
        ("known == `false`", "known-name == 'x'", "outcome[1].when", 'such as - in double quotes ("a-b")'),
        ("known == `false`", "known == 4", "outcome[1].when", "write numbers in backticks (`4`)"),
        ("known == `false`", "known == false", "outcome[1].when", "false is the field of this name: write `false`"),
        ("known == `false`", "null != known", "outcome[1].when", "write `null`, in backticks"),
        ("known == `false`", "'a-b' == `43`", "outcome[1].when", "compares two constants"),
        (
            '["name"]\nlocation',
            "['contains(a, \"name\")']\nlocation",
            "fields.name[1]",
            "write 'name' for text, name for the field",
        ),
        ('["name"]\nlocation', "['a == \"b c\"']\nlocation", "fields.name[1]", "write 'b c' for text, @.\"b c\" for"),
        ('is = "found"', 'is = "fond"', "outcome[2].is", "'fond', which is none of auth, bad_response, found"),
        ('status_alone = "these tests"\n', "", "outcome[3]", "not_found needs more than a status"),
        ("when = \"contains(keys(@), 'name')\"\n", "", "outcome[2]", "found needs more than a status"),
        (
            'status_alone = "these tests"\nis = "not_found"',
            'status_alone = "x"\nis = "auth"',
            "outcome[3]",
            "status_alone is for the outcomes",
        ),
        ('status_alone = "these tests"', 'status_alone = " "', "outcome[3].status_alone", "matching regex"),
        ("status = [404]\n", "", "outcome[3]", "a rule needs status, when or text"),
        ("status = [404]\n", "when = \"code == 'unlisted'\"\n", "outcome[3]", "status_alone needs status, and neither"),
        ("status = [404]", 'status = [404]\ntext = "No such number."', "outcome[3]", "status_alone needs status, and"),
        ("status = [404]", "status = [404]\nnumber_specific = true", "outcome[3]", "number_specific is for"),
        ('is = "found"', 'is = "auth"\nnumber_specific = true', "outcome[2]", "number_specific is for"),
        (
            'status = [404]\nstatus_alone = "these tests"\nis = "not_found"',
            'status = [200]\nis = "bad_response"\nnumber_specific = true',
            "outcome[3]",
            "number_specific needs more than a status",
        ),
        (
            'status = [404]\nstatus_alone = "these tests"\nis = "not_found"',
            'when = "error != `null`"\nis = "unavailable"\nnumber_specific = true',
            "outcome[3]",
            "number_specific needs a `when`",
        ),
        ("status = [404]", "status = [40]", "outcome[3].status[1]", ">= 100"),
        ('name = ["name"]\nlocation = ["[city, state]"]', "", "fields", "at least one of name, location and spam"),
        ('name = ["name"]\n', 'name = "name"\n', "fields.name", "Expected `array`, got `str`"),
        ('number = "12025550123"', 'number = "+12025550123"', "sample[1].number", "matching regex"),
        ('number = "12025550123"', 'number = "12025550123\\n"', "sample[1].number", "matching regex"),
        ('number = "12025550123"\n', "", "sample[1]", "request needs the number"),
        ("fields = [", 'k = "$MOCK_A_KEY", fields = [', "", "request.query.k would send the text MOCK_A_KEY"),
        ("callers", "MOCK_A_KEY", "", "request.url would send the text MOCK_A_KEY"),
        (
            "[request]",
            '[request]\nmethod = "POST"\njson = { k = ["MOCK_A_KEY"] }',
            "",
            "request.json would send the text",
        ),
        (AUTH, 'form = { k = "MOCK_A_KEY" }', "", 'auth.form requires method = "POST"'),
        ("[fields]", "[coverage]\nregions = ['US', 'UK']\n[fields]", "coverage", "no country has the code UK: see"),
        ("[fields]", '[coverage]\nregions = ["US\\n"]\n[fields]', "coverage.regions[1]", "matching regex"),
        ("[fields]", '[coverage]\ncountry_codes = ["1\\n"]\n[fields]', "coverage.country_codes[1]", "matching regex"),
        ("[request]", '[request]\nheaders = { "X\\n" = "b" }', "request.headers", "matching regex"),
        ("[fields]", "[coverage]\ncountry_codes = ['1', '10']\n[fields]", "coverage", "the calling code 10"),
        ("[fields]", "[budget]\ntimeout_s = 0\n[fields]", "budget.timeout_s", "> 0"),
        ("[fields]", "[fields.spam]\nknown = ['a']\n[fields]", "fields.spam", "missing required field `yes`"),
    ],
)
def test_invalid_preset_names_key_and_problem(
    load: Callable[..., preset.Preset], old: str, new: str, key: str, problem: str
) -> None:
    assert old in MOCK_A
    with pytest.raises(preset.InvalidPreset) as raised:
        load(MOCK_A.replace(old, new, 1))
    assert str(raised.value).startswith("mock_a.toml: ")
    assert raised.value.key.startswith(key)
    assert problem in str(raised.value)


@pytest.mark.parametrize(
    "when",
    [
        "`true`",
        "!error",
        "@ == `null`",
        "@ == `{}`",
        "name == `null`",
        "type(@) == 'object'",
        "type(@) == 'string'",
        "length(@) >= `0`",
        "to_string(@) != 'x'",
        "!contains(@, 'name')",
        "contains(keys(@), 'message')",
        "error != `null`",
        "message == 'Not Found'",
        "status == `404`",
        "error == 'not_found'",
        "detail == 'Not found.'",
        "detail[0].loc[0] == 'path'",
        "contains(keys(@), 'timestamp')",
        "contains(keys(@), 'type')",
        "contains(keys(@), 'title') && !type",
        "statusCode == `404`",
        "statusCode == `404` && !error",
        "code == `400`",
        "code == '404' && message == 'not found'",
        "error && message && !reason",
        "error.status == 'NOT_FOUND'",
        "error.code == `404`",
        "errors[0].status == '404'",
        "length(errors) > `0`",
        "success == `false`",
        "success == `false` && error != `null`",
        "error == `true`",
        "status == 'error'",
        "length(@) > `0` && !contains(@, '<')",
        "starts_with(@, '404')",
        "contains(@, 'Not Found')",
    ],
)
def test_answer_rule_that_any_body_fulfils_is_invalid(load: Callable[..., preset.Preset], when: str) -> None:
    rule = f'status = [404]\nwhen = """{when}"""\nis = "not_found"'
    with pytest.raises(preset.InvalidPreset, match="not_found needs a `when` that an empty body or a proxy's page"):
        load(MOCK_A.replace('status = [404]\nstatus_alone = "these tests"\nis = "not_found"', rule, 1))


@pytest.mark.parametrize(
    "text",
    [
        *(" ", "Not Found", " NOT FOUND.\n", "not_found", "404", "404 Not Found", "404 page not found", "Bad Request"),
        *("OK", "Error", "Forbidden", "{}", "null", "[]", "true", '"Not found"', '{"message":"not found"}'),
        '{"status": 404, "title": "Not Found"}',
    ],
)
@pytest.mark.parametrize("outcome", ["found", "invalid_number"])
def test_answer_rule_with_a_proxys_text_is_invalid(load: Callable[..., preset.Preset], outcome: str, text: str) -> None:
    rule = f'status = [404]\ntext = """{text}"""\nis = "{outcome}"'
    with pytest.raises(preset.InvalidPreset, match=f"{outcome} needs a `text` that a proxy or a framework does not"):
        load(MOCK_A.replace('status = [404]\nstatus_alone = "these tests"\nis = "not_found"', rule, 1))


@pytest.mark.parametrize(
    ("status", "when"),
    [
        ("200", "status == 'OK'"),
        ("200", "success == `true`"),
        ("400", "error == 'bad_request'"),
        ("400", "error.status == 'INVALID_ARGUMENT'"),
        ("422", "contains(error, 'Unprocessable')"),
        ("451", "title == 'Unavailable For Legal Reasons'"),
        ("520", "status == `520`"),
        ("200, 400", "message == 'Bad request'"),
        ("200", "message == 'Not Found'"),
        ("", "message == 'Gateway timeout'"),
    ],
)
def test_proxy_bodies_have_the_statuses_of_the_rule(load: Callable[..., preset.Preset], status: str, when: str) -> None:
    line = f"status = [{status}]\n" if status else ""
    rule = f'{line}when = """{when}"""\nis = "not_found"'
    with pytest.raises(preset.InvalidPreset, match="not_found needs a `when` that an empty body"):
        load(MOCK_A.replace('status = [404]\nstatus_alone = "these tests"\nis = "not_found"', rule, 1))


@pytest.mark.parametrize(
    "proof",
    [
        'text = "Unknown number."',
        "when = \"error == 'unknown_number'\"",
        "when = \"message == 'Not Found' && contains(keys(@), 'number')\"",
        'when = "@ == `[]`"',
    ],
)
def test_rule_with_the_vendors_own_body_is_valid(load: Callable[..., preset.Preset], proof: str) -> None:
    assert load(MOCK_A.replace('status_alone = "these tests"', proof, 1)).rules[2].outcome == "not_found"


@pytest.mark.parametrize("name", ["Acme.toml", "acme-cnam.toml", "1acme.toml", ".toml", "acme.v2.toml"])
def test_invalid_file_name_is_rejected(load: Callable[..., preset.Preset], name: str) -> None:
    with pytest.raises(preset.InvalidPreset, match="lower-case"):
        load(MOCK_A, name)


@pytest.mark.parametrize("pasted", ["sk-live-51Habc", "SK_LIVE_51HABC"])
def test_secret_pasted_into_a_preset_is_not_repeated(load: Callable[..., preset.Preset], pasted: str) -> None:
    with pytest.raises(preset.InvalidPreset) as raised:
        load(MOCK_A.replace("MOCK_A_KEY", pasted))
    assert pasted not in str(raised.value)


def test_a_slice_is_an_expression(load: Callable[..., preset.Preset]) -> None:
    assert load(MOCK_A.replace('name = ["name"]', 'name = ["names[0:2]", "names[::-1] | [0]"]')).fields.name


@pytest.mark.parametrize(
    "text",
    [
        "votes.true == `1`",
        '"true" == `1`',
        '"a" == `1`',
        '"a-b" == @."c-d"',
        "'x' == a",
        'feed."tel:name"',
        "`[1]`[0] == a",
    ],
)
def test_fields_with_unusual_names_are_expressions(text: str) -> None:
    assert Expression(text).text == text


def test_unreadable_or_missing_file(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes('title = "Zoë"'.encode("latin-1"))
    for name in ("latin.toml", "absent.toml"):
        with pytest.raises(preset.InvalidPreset, match=f"{name}: cannot be read"):
            preset.load(tmp_path / name)


def test_every_edit_changes_the_fingerprint(load: Callable[..., preset.Preset]) -> None:
    assert load(MOCK_A).fingerprint == load(MOCK_A).fingerprint != load(MOCK_A + "\n").fingerprint


@pytest.mark.parametrize(
    ("coverage", "covered", "not_covered"),
    [
        ("regions = ['US']", ["12025550123", "18005550123"], ["16135550123", "493023125042", "9991234567"]),
        ("country_codes = ['1']", ["12025550123", "16135550123"], ["493023125042"]),
        ("country_codes = ['49', '43']", ["493023125042", "4312345678"], ["12025550123", "4412345678"]),
        ("", ["12025550123", "9991234567"], []),
    ],
)
def test_coverage(
    load: Callable[..., preset.Preset], coverage: str, covered: list[str], not_covered: list[str]
) -> None:
    loaded = load(f"{MOCK_A}\n[coverage]\n{coverage}\n")
    assert [number for number in covered if not loaded.covers(number)] == []
    assert [number for number in not_covered if loaded.covers(number)] == []


def test_number_that_no_format_can_express_is_not_covered(
    load: Callable[..., preset.Preset],
) -> None:
    for form in ("nanp_digits", "nanp_dashed"):
        ten_digits = load(MOCK_A.replace("{e164}", f"{{{form}}}"))
        assert ten_digits.covers("12025550123")
        assert not any(ten_digits.covers(number) for number in ("493023125042", "1202555012", "120255501234"))
    in_the_body = load(MOCK_B.replace("{e164}", "{national_digits}"), "mock_b.toml")
    assert in_the_body.covers("493023125042")
    assert not in_the_body.covers("9991234567")


@pytest.mark.parametrize(
    ("template", "number", "written"),
    [
        ("{e164}", "493023125042", "+493023125042"),
        ("{e164_digits}", "493023125042", "493023125042"),
        ("{national_digits}", "390612345678", "0612345678"),
        ("{nanp_dashed} {nanp_digits}", "12025550123", "202-555-0123 2025550123"),
        ("{country_code}/{region}", "16135550123", "1/CA"),
        ("{e164-2}", "493023125042", "+4930231250"),
        ("{e164_digits-9}", "49301234", ""),
        ("a b", "12025550123", "a b"),
    ],
)
def test_number_formats(template: str, number: str, written: str) -> None:
    assert Template(template).fill(number) == written


def test_unknown_format_lists_those_that_can_be_used() -> None:
    with pytest.raises(ValueError, match=r"\{number\} is none of e164, .*, region, sha1_e164$"):
        Template("{number}")


def test_sha1_of_the_number_and_of_a_shortened_number() -> None:
    whole, shorter = (hashlib.sha1(number).hexdigest().upper() for number in (b"+12025550123", b"+1202555012"))
    assert Template("{sha1_e164} {sha1_e164-1}").fill("12025550123") == f"{whole} {shorter}"
