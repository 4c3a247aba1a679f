"""Long notes and reasons: folded, with their lines, and never as HTML."""

import pytest

from core.cells import FOLDED_CHARACTERS, folded

SHOW_ALL = "<span>… Show all</span>"


@pytest.mark.parametrize("text", ["", "paid", "x" * FOLDED_CHARACTERS, "<b>"])
def test_short_text_is_as_it_is(text: str) -> None:
    assert folded(text) == text


def test_lines_are_kept_and_html_is_escaped() -> None:
    assert folded("<b>\r\ntwo\n") == '<span class="console-lines">&lt;b&gt;\ntwo</span>'


@pytest.mark.parametrize(
    ("text", "start", "rest"),
    [
        ("x" * (FOLDED_CHARACTERS + 1), "x" * FOLDED_CHARACTERS, "x"),
        ("word " * 40 + "end", ("word " * 31).strip(), "word " * 9 + "end"),
        ("words " * 30, ("words " * 26).strip(), ("words " * 4).strip()),
        ("one\n\nthree\nfour <i>", "one\n\nthree", "four &lt;i&gt;"),
    ],
)
def test_long_text_loses_nothing_when_it_is_folded(text: str, start: str, rest: str) -> None:
    wanted = f'<details class="console-lines"><summary>{start}{SHOW_ALL}</summary>{rest}</details>'
    assert folded(text) == wanted
