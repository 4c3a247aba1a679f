"""Test mode: what a search with a test token answers. It depends on the number alone; no table and no vendor is read.

CASES is the only list of these numbers: the API reference shows it, and docs/test-mode.md is compared with it.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from django.conf import settings
from rest_framework.exceptions import Throttled

from accounts.charging import NoCreditsLeft
from core import admission
from core.text import MAX_TEXT
from lookup.answers import Answer, Failed, Found, NotFound
from lookup.search import SearchResult, SlotResult

#: Of the case whose rate limit is exceeded.
RETRY_AFTER_S = 1
#: The slow answer takes this share of SEARCH_DEADLINE_S.
SLOW_SHARE = 0.9

_NOTHING = NotFound()


@dataclass(frozen=True, slots=True)
class Case:
    """What the service answers for one number. `status`: for the documentation; the answers or `error` decide it."""

    number: str
    status: int
    answer: str
    source_a: Answer = _NOTHING
    source_b: Answer = _NOTHING
    error: Callable[[], Exception] | None = None
    is_slow: bool = False


_BAKERY_A = Found(name="Example Bakery", location="New York")
_BAKERY_B = Found(name="Example Bakery", spam=False)
_LONGEST = ("Longest Example Name " * MAX_TEXT)[:MAX_TEXT]
_SIMULATED = Failed("test", "This failure is simulated.")

#: All from the range that is reserved for fiction: +1 212 555 0100 to 0199.
CASES = (
    Case("12125550100", 200, "both sources find it", _BAKERY_A, _BAKERY_B),
    Case("12125550101", 200, "only `source_a` finds it", source_a=_BAKERY_A),
    Case("12125550102", 200, "only `source_b` finds it", source_b=_BAKERY_B),
    Case("12125550103", 200, "`source_b` reports spam", _BAKERY_A, Found(name="Example Bakery", spam=True)),
    Case("12125550104", 200, "neither source finds it, as for any number that is not listed here"),
    Case(
        "12125550105",
        200,
        f"both sources find it, after {SLOW_SHARE:.0%} of the search's deadline",
        _BAKERY_A,
        _BAKERY_B,
        is_slow=True,
    ),
    Case("12125550106", 200, "`source_a` fails, `source_b` finds it", _SIMULATED, _BAKERY_B),
    Case("12125550107", 200, "`source_b` fails, `source_a` finds it", _BAKERY_A, _SIMULATED),
    Case("12125550108", 500, "both sources fail", _SIMULATED, _SIMULATED),
    Case("12125550109", 403, "the token has no credits left", error=NoCreditsLeft),
    Case(
        "12125550110",
        429,
        f"the rate limit is exceeded; `Retry-After: {RETRY_AFTER_S}`",
        error=lambda: Throttled(RETRY_AFTER_S),
    ),
    Case(
        "12125550111",
        503,
        f"the service is overloaded; `Retry-After: {admission.Overloaded.wait_s}`",
        error=admission.Overloaded,
    ),
    Case(
        "12125550112",
        200,
        f"both names and the location have {MAX_TEXT} characters, the maximum for a text",
        Found(name=_LONGEST, location=_LONGEST),
        Found(name=_LONGEST, spam=False),
    ),
    Case(
        "12125550113",
        200,
        "names in Arabic (right to left, with vowel marks) and Hindi (combining marks), an emoji in the location",
        Found(name="مَخْبَزُ المِثَالِ", location="القاهرة 🥐"),
        Found(name="हिन्दी उदाहरण", spam=False),
    ),
)
_BY_NUMBER = {case.number: case for case in CASES}
_UNLISTED = Case("", 200, "")


def table() -> str:
    """CASES in Markdown."""
    rows = [f"| `{case.number}` | {case.status} | {case.answer} |" for case in CASES]
    return "\n".join(["| `query` | status | answer |", "|---|---|---|", *rows])


async def search(number: str) -> SearchResult:
    """As lookup.search.search. Raises what the number's case calls for: NoCreditsLeft, Throttled or Overloaded."""
    case, started = _BY_NUMBER.get(number, _UNLISTED), time.monotonic()
    if case.error is not None:
        raise case.error()
    if case.is_slow:
        with admission.searches.released():
            await asyncio.sleep(SLOW_SHARE * settings.SEARCH_DEADLINE_S)
    elapsed_s = time.monotonic() - started
    return SearchResult(
        number, {"source_a": SlotResult(case.source_a, elapsed_s), "source_b": SlotResult(case.source_b, elapsed_s)}
    )
