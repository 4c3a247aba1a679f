"""PhoneBlock's list: its version, its entries each by itself, and nothing of its text in an error."""

import io
import json
from contextlib import suppress
from datetime import date
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lookup.datasets import phoneblock, reading
from lookup.datasets.reading import IN_THE_FUTURE, NOT_UTF8, ComplaintRow, ListVersion, Rejected, Unreadable

TODAY = date(2026, 3, 6)
#: 2024-03-09T16:00:00Z
SPOKE_AT = 1_710_000_000_000
DAY = date(2024, 3, 9)
NO_VOTES = "votes must be a whole number"
NO_TIME = "lastActivity must be milliseconds since 1970"
NO_OBJECT = 'not an object such as {"phone": …, "votes": …}'


def read(text: str) -> list[ComplaintRow | Rejected | ListVersion]:
    return list(phoneblock.read(iter(io.StringIO(text)), source="phoneblock", today=TODAY))


def entry(**changes: Any) -> list[ComplaintRow | Rejected | ListVersion]:
    """What is read of one good entry with these changes; None takes a field away."""
    good = {"phone": "+493023125042", "rating": "G_FRAUD", "votes": 4, "lastActivity": SPOKE_AT}
    return read(json.dumps({"numbers": [{key: value for key, value in (good | changes).items() if value is not None}]}))


def test_a_whole_list_in_one_line() -> None:
    text = (
        '{"numbers":[{"phone":"+493023125042","votes":100,"rating":"G_FRAUD","lastActivity":1710000000000},'
        '{"phone":"+441614960142","votes":10,"rating":"C_PING","lastActivity":1710028799999},'
        '{"phone":"+12125550142","rating":"C_POLL","votes":4},'
        '{"phone":"+12125550143","votes":2,"lastActivity":0,"comment":"new"}],"version":42}'
    )
    assert read(text) == [
        ListVersion(42),
        (1, 493023125042, "phoneblock", DAY, 100, 0, "G_FRAUD", ""),
        (1, 441614960142, "phoneblock", DAY, 10, 0, "C_PING", ""),
        (1, 12125550142, "phoneblock", TODAY, 4, 0, "C_POLL", ""),
        (1, 12125550143, "phoneblock", TODAY, 2, 0, "", ""),
    ]


def test_an_incremental_list_says_what_has_left_and_an_editor_shows_its_lines() -> None:
    text = """{
  "version": 43,
  "more": [{"phone": "+12125550199"}],
  "numbers": [
    {"phone": "+493023125042", "votes": 0},
    {
      "phone": "+441614960142",
      "votes": 0
    }, {"phone": "+12125550142", "votes": 20, "rating": "B_MISSED"},

    {"phone": "+493023125042", "votes": 0}
  ]
}
"""
    assert read(text) == [
        ListVersion(43),
        (5, 493023125042, "phoneblock", TODAY, 0, 0, "", ""),
        (6, 441614960142, "phoneblock", TODAY, 0, 0, "", ""),
        (9, 12125550142, "phoneblock", TODAY, 20, 0, "B_MISSED", ""),
        Rejected(11, reading.REPEATED, "49********42", "entry 4"),
    ]


def test_a_bad_entry_costs_no_other() -> None:
    text = (
        """{"numbers": [
      {"phone": "+493023125042", "votes": 4},
      {"phone": "+4930", "votes": 4},
      {"phone": "unknown", "votes": 4},
      {"votes": 4}, {"phone": 493023125042, "votes": 4},
      {"phone": "+12125550142"},
      null, 7, "+12125550142", [{}], {},
      {"phone": "+1212555014\udce4", "votes": 4},
      {"phone": "+12125550143", "votes": TOO_LONG},
      {"phone": "+12125550144", "votes": 4}
    ]}"""
    ).replace("TOO_LONG", "9" * 5000)
    assert read(text) == [
        (2, 493023125042, "phoneblock", TODAY, 4, 0, "", ""),
        Rejected(3, "number must have 7 to 15 digits", None, "entry 2"),
        Rejected(4, "number is no phone number", None, "entry 3"),
        Rejected(5, "no number", None, "entry 4"),
        Rejected(5, "number must be a string", None, "entry 5"),
        Rejected(6, NO_VOTES, "1********42", "entry 6"),
        *(Rejected(7, NO_OBJECT, None, f"entry {n}") for n in (7, 8, 9, 10)),
        Rejected(7, "no number", None, "entry 11"),
        Rejected(8, NOT_UTF8, None, "entry 12"),
        Rejected(9, NO_OBJECT, None, "entry 13"),
        (10, 12125550144, "phoneblock", TODAY, 4, 0, "", ""),
    ]


@pytest.mark.parametrize("votes", [0, 1, 4, 2**31 - 1])
def test_votes_are_taken_as_they_are(votes: int) -> None:
    assert entry(votes=votes) == [(1, 493023125042, "phoneblock", DAY, votes, 0, "G_FRAUD", "")]


@pytest.mark.parametrize("votes", [None, True, False, 4.0, "4", -1, 2**31, 10**30, [4]])
def test_what_is_no_count_is_never_one(votes: Any) -> None:
    assert entry(votes=votes) == [Rejected(1, NO_VOTES, "49********42", "entry 1")]


@pytest.mark.parametrize(
    ("spoke_at", "day"),
    [(None, TODAY), (0, TODAY), (1, date(1970, 1, 1)), (SPOKE_AT, DAY), (1_772_927_999_999, date(2026, 3, 7))],
)
def test_the_day_is_utcs_and_today_where_there_is_none(spoke_at: int | None, day: date) -> None:
    assert entry(lastActivity=spoke_at) == [(1, 493023125042, "phoneblock", day, 4, 0, "G_FRAUD", "")]


@pytest.mark.parametrize(
    ("spoke_at", "reason"),
    [
        (1_772_928_000_000, IN_THE_FUTURE),
        (10**18, NO_TIME),
        (10**30, NO_TIME),
        (-1, NO_TIME),
        (1.5, NO_TIME),
        (False, NO_TIME),
        ("2024-03-09", NO_TIME),
    ],
)
def test_a_time_that_cannot_be_is_rejected(spoke_at: Any, reason: str) -> None:
    assert entry(lastActivity=spoke_at) == [Rejected(1, reason, "49********42", "entry 1")]


@pytest.mark.parametrize(
    ("rating", "subject"),
    [("H_NEW", "H_NEW"), ("", ""), (None, ""), (7, ""), (" A\tB\u0000 ", "A B"), ("x" * 150, "x" * 100)],
)
def test_any_rating_is_kept(rating: Any, subject: str) -> None:
    assert entry(rating=rating) == [(1, 493023125042, "phoneblock", DAY, 4, 0, subject, "")]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no JSON"),
        ("Please provide login credentials.", "no JSON"),
        ('{"numbers":[{"phone":"+493023125042","votes":4}', "no JSON"),
        ('{"numbers":[]} {}', "no JSON"),
        ('{"numbers":' + "[" * 100_000 + "]" * 100_000 + "}", "no JSON"),
        ('{"numbers":[\udce4]}', "no JSON"),
        ("{}", "no blocklist"),
        ("[]", "no blocklist"),
        ('{"numbers":{}}', "no blocklist"),
        ('{"numbers":null}', "no blocklist"),
        ('{"numbers":[],"version":"42"}', "no blocklist"),
        ('{"numbers":[],"version":true}', "no blocklist"),
        ('{"numbers":[],"version":-1}', "no blocklist"),
        ('{"numbers":[],"version":9223372036854775808}', "no blocklist"),
    ],
)
def test_what_is_no_list_is_refused_before_its_first_entry(text: str, says: str) -> None:
    with pytest.raises(Unreadable, match=says) as error:
        read(text)
    assert "493023125042" not in str(error.value)


@pytest.mark.parametrize("text", ['{"numbers":[]}', '{"numbers":[],"version":null}', '\ufeff\n{"numbers":[]}\n'])
def test_an_empty_list_of_no_version_hands_out_nothing(text: str) -> None:
    assert read(text) == []


def test_a_file_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    text = '{"numbers":[]}\n'
    monkeypatch.setattr(phoneblock, "MAX_CHARACTERS", len(text))
    assert read(text) == []
    with pytest.raises(Unreadable, match="larger"):
        read(text + "\n")


@pytest.mark.parametrize(
    ("line", "is_one"),
    [('{"numbers":[', True), ("\ufeff  {\n", True), ("", False), ("[", False), ("number,day,total", False)],
)
def test_it_is_recognised_by_its_brace(line: str, is_one: bool) -> None:
    assert phoneblock.recognises(line) is is_one


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["phone", "votes", "rating", "lastActivity", "x"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(st.lists(JSON, max_size=5), st.sampled_from([None, 1]))
def test_each_entry_is_handed_out_or_rejected_at_a_line_of_the_file(entries: list[Any], indent: int | None) -> None:
    text = json.dumps({"numbers": entries}, indent=indent)
    try:
        found = read(text)
    except Unreadable:
        assert any(word in text for word in ("NaN", "Infinity"))  # which Python writes, and JSON has not
        return
    lines = [row.line if isinstance(row, Rejected) else row[0] for row in found if not isinstance(row, ListVersion)]
    assert len(lines) == len(entries)
    assert lines == sorted(lines)


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from('{}[]",:0\n\udc80') | st.characters(), max_size=40))
@example('{"numbers":[0,\udce4]}')
def test_no_text_stops_the_reader_in_another_way(text: str) -> None:
    with suppress(Unreadable):
        read(text)
