"""The world's numbering plan, as the `phonenumbers` package brings it (libphonenumber's geocoding data, Apache 2.0).

The only module that imports that data, and only while it reads: it takes 98 MB, which no serving process should hold.
"""

from dataclasses import dataclass

import phonenumbers

from lookup.answers import clean_text

# Regions that are in the plan, but not in the package's table of names; the names are Unicode CLDR's.
_NAMES_MISSING_UPSTREAM = {"AC": "Ascension Island", "TA": "Tristan da Cunha", "XK": "Kosovo"}


@dataclass(frozen=True, slots=True)
class NumberingPlan:
    """`places`: the English place of each prefix (country code and leading digits; empty: known to have none);
    `countries`: the English name of each region (ISO 3166-1 alpha-2)."""

    version: str
    places: dict[int, str]
    countries: dict[str, str]


def read() -> NumberingPlan:
    """The plan of the installed `phonenumbers`. Prefixes that are named in other languages only are left out, as the
    package itself then looks for a shorter one."""
    from phonenumbers.geodata import GEOCODE_DATA
    from phonenumbers.geodata.locale import LOCALE_DATA

    return NumberingPlan(
        version=version(),
        places={int(prefix): clean_text(names["en"]) for prefix, names in GEOCODE_DATA.items() if "en" in names},
        countries=_NAMES_MISSING_UPSTREAM
        | {code: name for code in LOCALE_DATA if (name := _english(LOCALE_DATA[code]))},
    )


def version() -> str:
    """The version of the installed data, without reading it."""
    return phonenumbers.__version__


def _english(names: dict[str, str]) -> str:
    """A region's English name. `*aa` says that it is the same as in that other language."""
    name = names.get("en", "")
    return names.get(name[1:], "") if name.startswith("*") else name
