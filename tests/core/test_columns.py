"""The columns of the console's lists."""

import pytest
from django.utils.safestring import SafeString

from core.cells import column


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("until 2026-11-28 07:00 <b>", 'until <span class="console-date">2026-11-28</span> 07:00 &lt;b&gt;'),
        ("ledger-from-2026-11-28T0700", 'ledger-from-<span class="console-date">2026-11-28</span>T0700'),
        *((text, text) for text in ("2026-11-28 07:00:00", "<b>", "2026-11-281", "a\n2026-11-28")),
        *((text, text) for text in (SafeString('<a href="?since=2026-11-28">x</a>'), "-")),
    ],
)
def test_dates_in_a_sentence_are_not_wrapped(text: str, shown: str) -> None:
    result = column(lambda row: row, "text").__func__(text)
    assert (result, isinstance(result, SafeString)) == (shown, "console-date" in shown or isinstance(text, SafeString))
