"""How numbers are read as people write them."""

from collections.abc import Callable

from core import numbers
from tests.cases.case import Case


def spellings(case: Case) -> None:
    """`[read]`: a spelling = its digits, or "" if it is no number: typed, searched for, and in a list with `region`."""
    region, expected = case.data.pop("region", None), case.data.pop("read")

    def digits(parse: Callable[[str], str], text: str) -> str:
        try:
            return parse(text)
        except numbers.InvalidNumber:
            return ""

    def listed(text: str) -> str:
        return numbers.parse_listed(text, region)

    readers = [listed] if region else [listed, numbers.parse_typed, numbers.parse_searched]
    got = {text: {digits(reader, text) for reader in readers} for text in expected}
    assert got == {text: {wanted} for text, wanted in expected.items()}
