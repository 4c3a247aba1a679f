"""What presets make of vendors' replies."""

import gzip
import json
import time
from contextlib import suppress
from functools import reduce

from core import http, numbers
from lookup.answers import Failed, Found
from lookup.connectors import registry
from lookup.vendors import preset
from lookup.vendors.transport import Reply
from tests.cases.case import Case
from tests.lookup.vendors.calls import close_clients, get
from tests.lookup.vendors.searches import connector_of
from tests.upstream import Upstream, raw


def caller_names(case: Case) -> None:
    """`[names]`: what a vendor sends as a name = what is shown, or nothing, for every preset with a sample of one.
    `[places]`: the same for presets without `cnam`; those with it show nothing."""
    names, places = case.data.pop("names"), case.data.pop("places", {})
    of_cnam = {"opencnam", "telnyx", "trestle_smart_cnam", "twilio", "veriroute"}
    wrong, tried = [], 0
    for name, file in registry.presets().items():
        vendor = connector_of(preset.load(file))
        for sample in vendor.preset.sample:
            told = json.dumps(sample.expect.name)
            if sample.expect.name is None or sample.body.count(told) != 1:
                continue
            tried += 1
            for sent, shown in (names | (dict.fromkeys(places, "") if name in of_cnam else places)).items():
                reply = Reply(sample.status, sample.headers, sample.body.replace(told, json.dumps(sent)).encode())
                answer = vendor.classify(reply).answer
                read = (answer.name if isinstance(answer, Found) else None) or ""
                if isinstance(answer, Failed) or read != shown:
                    wrong.append((name, sample.title, sent, answer))
            break
    assert tried >= 11
    assert wrong == []


def coverage(case: Case) -> None:
    """`[covered.NAME]`: a number = whether the preset looks it up."""
    expected = case.data.pop("covered")
    presets = {name: preset.load(file) for name, file in registry.presets().items() if name in expected}
    covered = {
        name: {number: presets[name].covers(numbers.parse_typed(number)) for number in each}
        for name, each in expected.items()
    }
    assert covered == expected


def retry_after(case: Case) -> None:
    """`[seconds]`: a value of `Retry-After` = how long it asks to wait, or `none`; `date`: when the reply was sent."""
    date, expected = case.data.pop("date"), case.data.pop("seconds")
    waits = {value: http.retry_after_s({"Retry-After": value, "Date": date}) for value in expected}
    assert {value: "none" if wait_s is None else wait_s for value, wait_s in waits.items()} == expected
    soon = http.retry_after_s({"Retry-After": str(int(time.time()) + 100)})  # without a Date, by this host's clock
    assert soon is not None
    assert 0 < soon <= 100


def compression(case: Case) -> None:
    """`readable`: a Content-Encoding, and how often a body is compressed with gzip, that a vendor's client reads."""
    server = Upstream(raw(b"")).start()
    read: list[list[object]] = []
    try:
        for coding, times in (expected := case.data.pop("readable")):
            body = reduce(lambda packed, _: gzip.compress(packed), range(times), b"{}")
            server.behave_as(raw(body, 200, f"Content-Encoding: {coding}\r\n" if coding else ""))
            with suppress(http.RequestFailed):
                read += [[coding, times]] if get(server.url).body == b"{}" else []
    finally:
        close_clients()
        server.stop()
    assert read == expected
