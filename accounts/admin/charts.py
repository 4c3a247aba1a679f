"""The chart of requests by outcome: stacked bars, and the same figures as a table."""

from collections.abc import Mapping
from typing import Any

from accounts.request_statistics import DEGRADED, OUTCOMES, REFUSED
from core import charts

#: Title → its outcomes and its colour. The colours are distinct in both themes and for colour-blind users.
_STACK = {
    "both sources matched": (("found_both",), "#1f6fb2"),
    "one source matched": (("found_one",), "#45a5d9"),
    "no match": (("found_none", "given_away"), "#8a93a0"),
    "degraded": (DEGRADED, "#12908a"),
    "replayed": (("replayed",), "#9a6fd0"),
    "refused": (REFUSED, "#c58a00"),
    "failed": (("failed",), "#d03a20"),
}
_TEST_STACK = {"test token": (("test",), "#1f6fb2")}


def requests_chart(
    steps: Mapping[Any, Mapping[str, int]], *, label: str, by: str, is_test: bool = False
) -> dict[str, Any]:
    """The context of the template requests.html. `steps`: each hour or day with its counts by outcome, oldest
    first. `label`: the strftime format of the bars' labels. `by`: `hour` or `day`. `is_test`: shows requests with test
    tokens, and otherwise all others."""
    stack = _TEST_STACK if is_test else _STACK
    listed = {outcome: title for outcome, title in OUTCOMES.items() if (outcome == "test") is is_test}
    stacks = {
        title: [sum(counts.get(outcome, 0) for outcome in outcomes) for counts in steps.values()]
        for title, (outcomes, _) in stack.items()
    }
    return {
        "by": by,
        "drawn": any(map(any, stacks.values())),
        **charts.stacked_bars(
            [f"{at:{label}}" for at in steps],
            [(title, stack[title][1], figures) for title, figures in stacks.items()],
        ),
        "legend": [(title, sum(figures)) for title, figures in stacks.items()],
        "columns": list(listed.values()),
        "rows": [(at, [counts.get(outcome, 0) for outcome in listed]) for at, counts in steps.items()],
    }
