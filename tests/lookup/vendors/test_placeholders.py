"""Places of the North American numbering plan, which stand in place of names."""

import importlib
import pkgutil
import re
import sys

import pytest
from phonenumbers import geodata

from lookup.vendors import placeholders
from lookup.vendors.placeholders import cleaned


def places_of_the_library() -> list[str]:
    """As `places.txt` has them: in lower case, with spaces alone, `rockingham nc`. About 100 MB are loaded for it."""
    found = set[str]()
    for module in pkgutil.iter_modules(geodata.__path__):
        if module.name.startswith("data"):
            data = importlib.import_module(f"{geodata.__name__}.{module.name}").data
            found |= {names["en"] for prefix, names in data.items() if prefix.startswith("1") and "en" in names}
            del sys.modules[f"{geodata.__name__}.{module.name}"]
    folded = {re.sub(r"[\W_]+", " ", place.casefold()).strip() for place in found if re.search(r", [A-Z]{2}$", place)}
    return sorted(folded | {"washington dc"})


@pytest.mark.slow
def test_places_are_the_librarys() -> None:
    """After an update of phonenumbers: write `"\\n".join(places_of_the_library())` to the file."""
    assert placeholders.PLACES.read_text(encoding="utf-8").split("\n") == places_of_the_library()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        *(("ROCKINGHAM NC", ""), ("Rockingham, NC", ""), ("ROCKINGHAM    NC", ""), ("WASHINGTON DC", "")),
        *(("ST. LOUIS,MO", ""), ("SAN FRANCISCO CA", ""), ("SAN FRANCISCOCA", ""), ("SAN FRANCISC CA", "")),
        *(("TORONTO ON", ""), ("NORTH LAS VEG NV", ""), ("NEW YORK NY", "")),
        *(("SMITH MD", "SMITH MD"), ("ACME CO", "ACME CO"), ("DOE JANE MA", "DOE JANE MA"), ("Berlin DE", "Berlin DE")),
        *(("ROCKINGHAM NC LLC", "ROCKINGHAM NC LLC"), ("Rockingham", "Rockingham"), ("NC", "NC"), ("LI NG", "LI NG")),
    ],
)
def test_city_and_state_are_no_name(text: str, shown: str) -> None:
    assert cleaned(text, is_cnam=True) == shown


@pytest.mark.parametrize("text", ["MADISON AL", "Florence, Al"])
def test_city_and_state_may_be_a_name_elsewhere(text: str) -> None:
    assert cleaned(text) == text


@pytest.mark.parametrize("text", ["Mobile", "MOBILE", "Private", "Call", "International", "Rockingham, NC"])
def test_a_place_may_have_the_name_of_a_placeholder(text: str) -> None:
    assert cleaned(text, is_name=False) == text


@pytest.mark.parametrize("text", ["Unknown", "NOT AVAILABLE", "n/a", "null", "-", "+1 202-555-0123"])
def test_no_place(text: str) -> None:
    assert cleaned(text, is_name=False) == ""
