"""Every shipped preset reads its vendor's documented answers as documented, and never mistakes junk for an answer."""

import json
from contextlib import suppress

import pytest

from lookup.answers import Answer, Failed, Found, NotFound
from lookup.vendors import bodies, preset
from lookup.vendors.json_api import JsonApi
from lookup.vendors.preset import MissingEnvironment
from lookup.vendors.transport import Reply
from tests.lookup.vendors.searches import connector_of, shipped_preset

NAMES = sorted(file.stem for file in preset.SHIPPED.glob("*.toml"))
JUNK = [
    b"",
    b" ",
    b"null",
    b"{}",
    b'"text"',
    b"5",
    b"true",
    b"[[]]",
    b"[5]",
    b"{",
    b"\xff\xfe",
    b"NaN",
    b"<html><body>Sign in</body></html>",
    b"[" * 60_000,
    b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
]


@pytest.fixture(params=NAMES)
def shipped(request: pytest.FixtureRequest) -> preset.Preset:
    return shipped_preset(request.param)


#: What a reply is to which no rule applies (RFC 9110, RFC 6585).
BY_STATUS = {400: "bad_response", 401: "auth", 402: "quota", 403: "auth", 404: "bad_response", 408: "unavailable"}
BY_STATUS |= {429: "rate_limited", 500: "unavailable", 503: "unavailable"}


@pytest.mark.parametrize("status", BY_STATUS)
def test_a_status_alone_means_what_http_says(shipped: preset.Preset, status: int) -> None:
    classified = connector_of(shipped).classify(Reply(status, {}, b""))
    if classified.rule is None:
        assert classified.outcome == BY_STATUS[status]
    else:  # the vendor documents another meaning
        assert status in shipped.rules[classified.rule - 1].status


def test_sample_titles_are_unique_and_one_has_a_request(shipped: preset.Preset) -> None:
    titles = [sample.title for sample in shipped.sample]
    assert len(set(titles)) == len(titles)
    assert any(sample.request for sample in shipped.sample)


def test_every_key_is_required_and_sent(shipped: preset.Preset) -> None:
    number = next(each.number for each in shipped.sample if each.number and shipped.covers(each.number))
    names = shipped.auth.names
    if names and not shipped.auth.optional:
        with pytest.raises(MissingEnvironment, match=names[0]):
            JsonApi(shipped, {})
    else:
        assert JsonApi(shipped, {}).covers(number)
    request = JsonApi(shipped, dict.fromkeys(names, "a-key-of-ours")).request(number)
    sent = f"{request.url} {dict(request.headers)} {request.body!r}"
    basic = "YS1rZXktb2Ytb3VyczphLWtleS1vZi1vdXJz"
    assert (basic if shipped.auth.basic else "a-key-of-ours") in sent or not names


#: Samples of failures, and whether they concern their number alone.
FAILURES = [
    ("opencnam", "the number is invalid", True),
    ("telesign", "the data did not arrive in time", True),
    ("telesign", "the number is on Telesign's block list", True),
    ("telesign", "Contact is unavailable", False),
    ("telesign", "not found, but not the number", True),
    ("telnyx", "the source of names did not answer", True),
    ("telnyx", "the name failed with another error, beside a place", True),
    ("telnyx", "another request that it refuses", True),
    ("telnyx", "it is down", False),
    ("trestle", "a partial answer with neither name nor place", True),
    ("trestle", "a malformed request", True),
    ("trestle", "it is down", False),
    ("trestle_smart_cnam", "a partial answer with neither name nor spam", True),
    ("twilio", "the provider of names replied with an error", True),
    ("twilio", "the number was looked up too often", True),
    ("twilio", "the provider of names is degraded", False),
    ("twilio", "caller name failed otherwise", False),
    ("veriroute", "an error instead of the name", True),
    ("veriroute", "an error with status 200", True),
    ("veriroute", "its own source is down", False),
]


@pytest.mark.parametrize(("name", "title", "number_specific"), FAILURES)
def test_failure_of_one_number_does_not_count(name: str, title: str, number_specific: bool) -> None:
    answer = answer_to_sample(name, title)
    assert isinstance(answer, Failed)
    assert answer.number_specific == number_specific


@pytest.mark.parametrize(
    ("name", "title", "unreadable"),
    [
        ("trestle", "a partial answer with a name", {"location"}),
        ("trestle", "a partial answer with a place", {"name"}),
        ("trestle", "a name and a list of addresses", set()),
        ("trestle_smart_cnam", "a partial answer with a name only", {"spam"}),
        ("trestle_smart_cnam", "a partial answer with spam only", {"name"}),
        ("trestle_smart_cnam", "a name and spam in a partial answer", set()),
        ("veriroute", "an error beside a name", {"spam"}),
        ("veriroute", "an error instead of the name, and the number is reported", {"name"}),
        ("veriroute", "a name is known and nothing is reported", set()),
    ],
)
def test_field_that_an_incomplete_answer_lacks_is_unreadable(name: str, title: str, unreadable: set[str]) -> None:
    answer = answer_to_sample(name, title)
    assert isinstance(answer, Found)
    assert answer.unreadable == unreadable


def answer_to_sample(name: str, title: str) -> Answer:
    shipped = shipped_preset(name)
    sample = next(sample for sample in shipped.sample if sample.title == title)
    reply = Reply(sample.status, sample.headers, sample.body.encode())
    return connector_of(shipped).classify(reply).answer


#: What proxies, gateways and web frameworks send for what they do not find or allow.
PROXY = [
    b"Not Found",
    b"<html><head><title>404 Not Found</title></head></html>",
    b"<!doctype html><title>Log in</title>",
    b'{"message":"Not Found"}',
    b'{"message":"no Route matched with those values"}',
    b'{"error":"not_found"}',
    b'{"error":{"code":404,"message":"Not found.","status":"NOT_FOUND"}}',
    b'{"errors":[{"code":"404","title":"Not Found","detail":"Not Found"}]}',
    b'{"success":false,"message":"Not Found","data":null}',
    b'{"code":404,"status":404,"message":"HTTP 404 Not Found","detail":"Not found."}',
    b'{"status":404,"error":"Not Found","path":"/v1","timestamp":"2026-11-01T00:00:00Z"}',
]


@pytest.mark.parametrize("body", JUNK + PROXY, ids=[repr(body[:40]) for body in JUNK + PROXY])
def test_page_of_a_proxy_is_a_failure(shipped: preset.Preset, body: bytes) -> None:
    vendor = connector_of(shipped)
    for status in (200, 204, 301, *range(400, 600)):
        assert isinstance(vendor.classify(Reply(status, {}, body)).answer, Failed), status


PHONEBLOCK = {"phone": "+12025550123", "votesWildcard": 9, "whiteListed": False, "blackListed": False}
SMART_CNAM = {"is_valid": True, "belongs_to": None, "error": None}
#: Cleared; then what the vendor recommends to flag in combination with more, and fields that may be missing.
IPQUALITYSCORE = {
    "success": True,
    "valid": True,
    "fraud_score": 74,
    "spammer": False,
    "recent_abuse": False,
    "risky": False,
}
UNDECIDED: list[tuple[str, bool | None]] = [
    *(("risky", True), ("active", False)),
    *((field, None) for field in ("fraud_score", "spammer", "recent_abuse", "risky")),
]
#: Reported, but by fewer than the preset's threshold: the field is left out, as where nobody reported the number.
FEW_REPORTS: list[tuple[str, object, Answer]] = [
    *(("phoneblock", {**PHONEBLOCK, "votes": votes}, NotFound()) for votes in (0, 1, 2, 3)),
    *(("usacallerlookup", {"complaints": {"total": total}, "location": None}, NotFound()) for total in (0, 1, 2)),
    *(("fcc", [{"caller_id_number": "202-555-0123"}] * count, NotFound()) for count in (0, 1)),
    *(("tellows", {"tellows": {"score": score, "comments": "3"}}, NotFound()) for score in ("4", "5", "6")),
    ("youmail", {"statusCode": 10000, "recordFound": True, "spamRisk": {"level": 1}}, NotFound()),
    ("callcontrol", {"IsSpam": False, "Confidence": 0}, NotFound()),
    ("callfilter", {"phone": 12025550123, "blocked": 0}, NotFound()),
    ("trestle_smart_cnam", {**SMART_CNAM, "add_ons": {"spam_checks": {"phone.is_spam": False}}}, NotFound()),
    ("veriroute", {"data": {"cnam": None, "spam_type": "NONE"}}, NotFound()),
    *(("ipqualityscore", {**IPQUALITYSCORE, "fraud_score": score}, NotFound()) for score in (75, 89)),
    *(("ipqualityscore", {**IPQUALITYSCORE, field: value}, NotFound()) for field, value in UNDECIDED),
]


@pytest.mark.parametrize(("name", "document", "answer"), FEW_REPORTS)
def test_few_reports_never_mean_not_spam(name: str, document: object, answer: Answer) -> None:
    vendor = connector_of(shipped_preset(name))
    assert vendor.classify(Reply(200, {}, json.dumps(document).encode())).answer == answer


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("phoneblock", {"phone": "+12025550123", "votes": 3, "votesWildcard": 0, "whiteListed": True}),
        ("tellows", {"tellows": {"score": "2", "comments": "3"}}),
        ("youmail", {"statusCode": 10000, "recordFound": True, "spamRisk": {"level": 0}}),
        ("callcontrol", {"IsSpam": False, "Confidence": 80}),
        ("ipqualityscore", {**IPQUALITYSCORE, "active": None, "VOIP": True, "prepaid": True, "do_not_call": True}),
        (
            "abstract",
            {
                "phone_validation": None,
                "phone_location": None,
                "phone_risk": {"is_abuse_detected": False, "risk_level": "low"},
            },
        ),
    ],
)
def test_number_cleared_by_the_vendor_is_not_spam(name: str, document: object) -> None:
    vendor = connector_of(shipped_preset(name))
    assert vendor.classify(Reply(200, {}, json.dumps(document).encode())).answer == Found(spam=False)


def test_undocumented_types_never_raise(shipped: preset.Preset) -> None:
    """Every leaf of every sample replaced by every other kind of value: an answer or a failure, never an exception, and
    a rule is true, false or null."""
    vendor = connector_of(shipped)
    for status, document in _documents(shipped):
        for changed in _mutations(document):
            body = json.dumps(changed).encode()
            assert not vendor.classify(Reply(status, {}, body)).not_boolean, body


def _documents(shipped: preset.Preset) -> list[tuple[int, object]]:
    documents: list[tuple[int, object]] = []
    for sample in shipped.sample:
        with suppress(ValueError):
            documents.append((sample.status, json.loads(sample.body)))
    return documents


def _mutations(document: object) -> list[object]:
    values: list[object] = [None, 5, -1.5, "x", True, [], {}, [None], {"a": None}]
    if isinstance(document, dict):
        inner = [{**document, key: new} for key, value in document.items() for new in _mutations(value)]
        return [*inner, *({k: v for k, v in document.items() if k != key} for key in document), *values]
    if isinstance(document, list):
        inner_list = [
            [*document[:i], new, *document[i + 1 :]] for i, value in enumerate(document) for new in _mutations(value)
        ]
        return [*inner_list, *values]
    return values


# No documented answer of these repeats the number.
SILENT = ["callcontrol", "google_find_place", "trestle_smart_cnam", "yelp"]


def test_answer_about_another_number_is_a_failure(shipped: preset.Preset) -> None:
    vendor, tried = connector_of(shipped), 0
    for sample in shipped.sample:
        reply = Reply(sample.status, sample.headers, sample.body.encode())
        if sample.expect.outcome not in ("found", "not_found") or shipped.fields.number is None:
            continue
        if shipped.fields.number(bodies.read(shipped.body, reply)):
            tried += 1
            answer = vendor.classify(reply, "12125550199").answer
            assert answer == Failed("bad_response", f"{sample.status}: its answer is about another number")
    assert bool(tried) is (shipped.name not in SILENT)


@pytest.mark.parametrize(
    ("repeated", "accepted"),
    [
        *(("+493023125042", True), ("493023125042", True), ("030 23125042", True), ("0049 30 23125-042", True)),
        *(("(30) 23125042", True), (493023125042, True), (3023125042, True), (None, True), ("unknown", True)),
        *(("+3023125042", False), ("+493023125043", False), ("3023125043", False), ("42", False)),
    ],
)
def test_number_may_be_repeated_in_any_spelling(repeated: object, accepted: bool) -> None:
    body = json.dumps({"votes": 9, "votesWildcard": 0, "phone": repeated}).encode()
    vendor = connector_of(shipped_preset("phoneblock"))
    assert (vendor.classify(Reply(200, {}, body), "493023125042").outcome == "found") is accepted
