"""PhoneBlock's list: its version, its entries, and errors that do not quote it."""

import io
import json
from contextlib import suppress
from datetime import date
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from contrib.file_formats import phoneblock
from phonebook.imports.readers import base
from phonebook.imports.readers.base import (
    NOT_UTF8,
    ComplaintRow,
    ListVersion,
    Rejected,
    UnreadableFile,
)

TODAY = date(2026, 3, 6)
#: 2024-03-09T16:00:00Z
SPOKE_AT = 1_710_000_000_000
DAY = date(2024, 3, 9)


def read(text: str) -> list[ComplaintRow | Rejected | ListVersion]:
    return list(phoneblock.read(iter(io.StringIO(text)), source="phoneblock", today=TODAY))


def entry(**changes: Any) -> list[ComplaintRow | Rejected | ListVersion]:
    """The rows of one valid entry with these changes; None removes a field."""
    good = {"phone": "+493023125042", "rating": "G_FRAUD", "votes": 4, "lastActivity": SPOKE_AT}
    return read(json.dumps({"numbers": [{key: value for key, value in (good | changes).items() if value is not None}]}))


def test_full_list_in_one_line() -> None:
    text = (
        '{"numbers":[{"phone":"+493023125042","votes":100,"rating":"G_FRAUD","lastActivity":1710000000000},'
        '{"phone":"+441614960142","votes":10,"rating":"C_PING","lastActivity":1710028799999},'
        '{"phone":"+12125550142","rating":"C_POLL","votes":4},'
        '{"phone":"+12125550143","votes":2,"lastActivity":0,"comment":"new"}],"version":42}'
    )
    assert read(text) == [
        ListVersion(42),
        (1, 493023125042, "phoneblock", DAY, 100, 0, "G_FRAUD", ""),
        (2, 441614960142, "phoneblock", DAY, 10, 0, "C_PING", ""),
        (3, 12125550142, "phoneblock", TODAY, 4, 0, "C_POLL", ""),
        (4, 12125550143, "phoneblock", TODAY, 2, 0, "", ""),
    ]


def test_control_character_costs_no_other_entry() -> None:
    entries = '{"phone":"+493023125042","votes":1,"rating":"a\x10b\nc"},{"phone":"+441614960142","votes":2}'
    assert read(f'{{"numbers":[{entries}]}}') == [
        (1, 493023125042, "phoneblock", TODAY, 1, 0, "a b c", ""),
        (2, 441614960142, "phoneblock", TODAY, 2, 0, "", ""),
    ]


def test_incremental_list_has_removals_and_positions() -> None:
    entries = [(493023125042, 0), (441614960142, 0), (12125550142, 20), (493023125042, 0)]
    numbers = [{"phone": f"+{number}", "votes": votes} for number, votes in entries]
    more = {"more": [{"phone": "+12125550199"}]}
    assert read(json.dumps({"version": 43, **more, "numbers": numbers}, indent=2)) == [
        ListVersion(43),
        (1, 493023125042, "phoneblock", TODAY, 0, 0, "", ""),
        (2, 441614960142, "phoneblock", TODAY, 0, 0, "", ""),
        (3, 12125550142, "phoneblock", TODAY, 20, 0, "", ""),
        Rejected(4, base.REPEATED, "49********42"),
    ]


def test_invalid_entry_costs_no_other() -> None:
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
        (1, 493023125042, "phoneblock", TODAY, 4, 0, "", ""),
        Rejected(2, "number must have 7 to 15 digits"),
        Rejected(3, "number is no phone number"),
        Rejected(4, "no number"),
        Rejected(5, "Expected `str`, got `int` - at `$.phone`"),
        Rejected(6, "Object missing required field `votes`", "1********42"),
        *(
            Rejected(n, f"Expected `object`, got `{found}`")
            for n, found in enumerate(("null", "int", "str", "array"), start=7)
        ),
        Rejected(11, "no number"),
        Rejected(12, NOT_UTF8),
        Rejected(13, "Integer value out of range - at `$.votes`", "1********43"),
        (14, 12125550144, "phoneblock", TODAY, 4, 0, "", ""),
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("votes", value) for value in (None, True, 4.0, "4", -1, 2**31, 10**30, [4])],
        *[("lastActivity", value) for value in (10**18, 10**30, -1, 1.5, False, "2024-03-09")],
    ],
)
def test_invalid_field_is_named_but_not_its_value(field: str, value: Any) -> None:
    (row,) = entry(**{field: value})
    assert isinstance(row, Rejected)
    assert (row.line, row.number) == (1, "49********42")
    assert field in row.reason
    assert str(value) not in row.reason


@pytest.mark.parametrize(
    ("spoke_at", "day"),
    [(None, TODAY), (0, TODAY), (1, date(1970, 1, 1)), (SPOKE_AT, DAY), (1_772_927_999_999, date(2026, 3, 7))],
)
def test_day_is_in_utc_and_by_default_today(spoke_at: int | None, day: date) -> None:
    assert entry(lastActivity=spoke_at) == [(1, 493023125042, "phoneblock", day, 4, 0, "G_FRAUD", "")]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        ('{"numbers":[{"phone":"+493023125042","votes":4}', "not JSON"),
        ('{"numbers":' + "[" * 100_000 + "]" * 100_000 + "}", "not JSON"),
        ('{"numbers":[\udce4]}', "not JSON"),
        ("{}", "not a block list"),
        ('{"numbers":null}', "not a block list"),
        ('{"numbers":[],"version":"42"}', "not a block list"),
        ('{"numbers":[],"version":-1}', "not a block list"),
        ('{"numbers":[],"version":9223372036854775808}', "not a block list"),
    ],
)
def test_other_content_is_refused_before_the_first_entry(text: str, says: str) -> None:
    with pytest.raises(UnreadableFile, match=says) as error:
        read(text)
    assert "493023125042" not in str(error.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["phone", "votes", "rating", "lastActivity", "x"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(st.lists(JSON, max_size=5))
def test_each_entry_is_yielded_or_rejected_with_its_position(entries: list[Any]) -> None:
    text = json.dumps({"numbers": entries})
    try:
        found = read(text)
    except UnreadableFile:
        assert any(word in text for word in ("NaN", "Infinity"))  # Python writes them, but they are not JSON
        return
    positions = [row.line if isinstance(row, Rejected) else row[0] for row in found if not isinstance(row, ListVersion)]
    assert positions == list(range(1, len(entries) + 1))


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from('{}[]",:0\n\udc80') | st.characters(), max_size=40))
@example('{"numbers":[0,\udce4]}')
def test_invalid_text_raises_unreadable_file_only(text: str) -> None:
    with suppress(UnreadableFile):
        read(text)


def test_file_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    text = '{"numbers":[]}\n'
    monkeypatch.setattr(phoneblock, "MAX_CHARACTERS", len(text))
    assert read(text) == []
    with pytest.raises(UnreadableFile, match="larger"):
        read(text + "\n")
