"""Loads the numbering plan of the installed `phonenumbers` package (libphonenumber's geocoding data, Apache 2.0).

Only this module imports that data, and only while it loads: it takes 98 MB, which no serving process should hold.
"""

from dataclasses import dataclass, field
from typing import Any

import phonenumbers
from django.conf import settings
from django.db import models

from core.db import yield_to_writers
from core.progress_bar import progress_bar
from core.text import clean_text
from phonebook.imports import data_sets
from phonebook.imports.staging import chunks
from phonebook.models import Country, Dataset, NumberPrefix

NUMBERING_PLAN = "numbering-plan"
ENGLISH = "en"
#: Languages whose missing places the package does not name in English.
_WITHOUT_ENGLISH = ("zh", "zh_Hant", "ja", "ko")

# Regions of the plan that are missing in the package's table of names; the names are Unicode CLDR's.
_NAMES_MISSING_UPSTREAM = {"AC": "Ascension Island", "TA": "Tristan da Cunha", "XK": "Kosovo"}


class UnknownLanguage(Exception):
    """No place has a name in PLACE_LANGUAGE."""


@dataclass(frozen=True, slots=True)
class NumberingPlan:
    """In PLACE_LANGUAGE, `places`: the place of each prefix (country code and leading digits; empty: known to have
    none); `countries`: the name of each region (ISO 3166-1 alpha-2)."""

    version: str
    places: dict[int, str]
    countries: dict[str, str]


@dataclass(slots=True)
class PlanResult:
    """`already_loaded`: nothing was compared. `before`: the version loaded before, empty if none; only then `changes`
    is empty. Each has the `key` of a prefix or country, and its name `before` and `after`, empty for none."""

    version: str
    already_loaded: bool
    before: str = ""
    prefixes: int = 0
    countries: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    changes: list[dict[str, str]] = field(default_factory=list)


def installed_version() -> str:
    """The version of the installed data, without reading it; with the language, if it is not English."""
    language = settings.PLACE_LANGUAGE
    return phonenumbers.__version__ + (f" {language}" if language != ENGLISH else "")


def read_installed() -> NumberingPlan:
    """The installed plan, without prefixes that have no name in PLACE_LANGUAGE: for them the package too uses a shorter
    prefix. Raises UnknownLanguage."""
    from phonenumbers.geodata import GEOCODE_DATA
    from phonenumbers.geodata.locale import LOCALE_DATA

    language = settings.PLACE_LANGUAGE
    if language not in (known := {name for names in GEOCODE_DATA.values() for name in names}):
        raise UnknownLanguage(f"PLACE_LANGUAGE: no place has a name in {language}, only in {', '.join(sorted(known))}.")
    order = [language, *([ENGLISH] if language not in _WITHOUT_ENGLISH else [])]
    named = ((prefix, [names[each] for each in order if each in names]) for prefix, names in GEOCODE_DATA.items())
    countries = {code: _country_name(names, language) for code, names in LOCALE_DATA.items()}
    return NumberingPlan(
        version=installed_version(),
        places={int(prefix): clean_text(names[0]) for prefix, names in named if names},
        countries=_NAMES_MISSING_UPSTREAM | {code: name for code, name in countries.items() if name},
    )


def _country_name(names: dict[str, str], language: str) -> str:
    """A region's name, if there is none in this language, the English one. `*aa` refers to the name in language aa."""
    for each in (language, ENGLISH):
        name = names.get(each, "")
        if name := names.get(name[1:], "") if name.startswith("*") else name:
            return name
    return ""


def load_numbering_plan() -> PlanResult:
    """Update the tables of prefixes and countries to the installed version, writing only what differs.

    Does nothing if that version is recorded as loaded, with as many prefixes as the table has, and there are countries.
    Searches continue: a table's rows are removed last. If interrupted, call it again. Raises UnknownLanguage.
    """
    version = installed_version()
    loaded = Dataset.objects.filter(name=NUMBERING_PLAN).first()
    before = loaded.version if loaded else ""
    if loaded and before == version and NumberPrefix.objects.count() == loaded.rows and Country.objects.exists():
        return PlanResult(version, already_loaded=True, before=before)
    plan = read_installed()
    result = PlanResult(version, False, before, prefixes=len(plan.places), countries=len(plan.countries))
    tables: list[tuple[type[models.Model], str, dict[Any, str]]] = [
        (Country, "name", plan.countries),
        (NumberPrefix, "place", plan.places),
    ]
    for model, column, rows in tables:
        present = dict(model._default_manager.values_list("pk", column))
        written = {key: value for key, value in rows.items() if present.get(key) != value}
        removed = list(present.keys() - rows.keys())
        result.added += len(written.keys() - present.keys())
        result.changed += len(written.keys() & present.keys())
        result.removed += len(removed)
        if before:
            result.changes += [
                {"key": str(key), "before": present.get(key, ""), "after": written.get(key, "")}
                for key in [*written, *removed]
            ]
        for chunk in chunks(progress_bar(written.items(), desc=column, unit=" rows")):
            model._default_manager.bulk_create(
                [model(**{"pk": key, column: value}) for key, value in chunk],
                update_conflicts=True,
                unique_fields=["pk"],
                update_fields=[column],
            )
            yield_to_writers()
        for keys in chunks(removed):
            model._default_manager.filter(pk__in=keys).delete()
            yield_to_writers()
    data_sets.record(NUMBERING_PLAN, version, rows=len(plan.places))
    return result
