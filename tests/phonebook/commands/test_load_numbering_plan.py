"""`load_numbering_plan` writes what differs, once per version, while searches continue."""

import io
import json
from typing import Any

import pytest
from django.core.management import call_command

from lookup.answers import Found
from lookup.connectors.geography import Geography
from phonebook.imports import numbering_plan
from phonebook.imports.numbering_plan import NumberingPlan
from phonebook.models import Country, Dataset, NumberPrefix
from tests import awaited

pytestmark = pytest.mark.django_db

SMALL = NumberingPlan("1.0", {4930: "Berlin", 4989: "Munich", 44: "", 1650253: "Mountain View, CA"}, {"DE": "Germany"})


class Installed:
    """A fake for the plan of the installed package."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.plan = SMALL
        self.reads = 0
        monkeypatch.setattr(numbering_plan, "installed_version", lambda: self.plan.version)
        monkeypatch.setattr(numbering_plan, "read_installed", self.read)

    def read(self) -> NumberingPlan:
        self.reads += 1
        return self.plan


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Installed:
    return Installed(monkeypatch)


def load(*options: str) -> str:
    out = io.StringIO()
    call_command("load_numbering_plan", *options, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def places() -> dict[int, str]:
    return dict(NumberPrefix.objects.values_list("prefix", "place"))


def test_first_load_writes_everything_and_records_the_version() -> None:
    assert load() == "Numbering plan 1.0: 4 prefixes, 1 countries; 5 rows added, 0 changed, 0 removed.\n"
    assert places() == SMALL.places
    assert dict(Country.objects.values_list("code", "name")) == SMALL.countries
    assert Dataset.objects.values_list("name", "version", "rows").get() == ("numbering-plan", "1.0", 4)


def test_loaded_version_is_not_read_again(installed: Installed) -> None:
    load()
    NumberPrefix.objects.filter(prefix=4930).update(place="Edited")
    assert "already loaded" in load()
    assert installed.reads == 1
    assert places()[4930] == "Edited"


@pytest.mark.parametrize("damaged", [NumberPrefix.objects.filter(prefix=4930), Country.objects.all()])
def test_missing_rows_are_loaded_again_in_the_same_version(damaged: Any) -> None:
    load()
    damaged.all().delete()
    assert load().startswith("Numbering plan 1.0: 4 prefixes, 1 countries; 1 rows added, 0 changed, 0 removed.\n")
    assert places() == SMALL.places
    assert Country.objects.count() == 1
    assert "already loaded" in load()


def test_new_version_writes_only_what_differs(installed: Installed) -> None:
    load()
    installed.plan = NumberingPlan("2.0", {4930: "Berlin", 44: "United Kingdom", 331: "Paris"}, {"FR": "France"})
    said = json.loads(load("--json"))
    changes = {change["key"]: (change["before"], change["after"]) for change in said.pop("changes")}
    assert changes == {
        "4989": ("Munich", ""),
        "1650253": ("Mountain View, CA", ""),
        "44": ("", "United Kingdom"),
        "331": ("", "Paris"),
        "DE": ("Germany", ""),
        "FR": ("", "France"),
    }
    assert said == {
        "version": "2.0",
        "before": "1.0",
        "already_loaded": False,
        "prefixes": 3,
        "countries": 1,
        "added": 2,
        "changed": 1,
        "removed": 3,
    }
    assert places() == installed.plan.places
    assert Dataset.objects.get().version == "2.0"


def test_update_prints_changes_and_first_load_does_not(installed: Installed) -> None:
    assert load().count("\n") == 1
    installed.plan = NumberingPlan("2.0", {**SMALL.places, 4930: "Berlin-Mitte", 331: "Paris"}, SMALL.countries)
    assert load().splitlines() == [
        "Numbering plan 2.0 (was 1.0): 5 prefixes, 1 countries; 1 rows added, 1 changed, 0 removed.",
        "  4930: Berlin → Berlin-Mitte",
        "  331: (none) → Paris",
    ]


def test_searches_are_answered_during_an_update(installed: Installed, monkeypatch: pytest.MonkeyPatch) -> None:
    load()
    installed.plan = NumberingPlan("2.0", {493023: "Berlin-Mitte", 4989: "Munich"}, {"DE": "Germany"})
    seen: list[Any] = []

    def look() -> None:
        seen.append(awaited.answer_of(Geography(), "493023125555"))

    monkeypatch.setattr(numbering_plan, "yield_to_writers", look)  # after each transaction
    load()
    assert len(seen) >= 2
    assert set(seen) <= {Found(location="Berlin"), Found(location="Berlin-Mitte")}


def test_interrupted_load_is_not_recorded_and_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(numbering_plan, "yield_to_writers", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            load()
    assert not Dataset.objects.exists()
    assert "4 rows added" in load()
    assert Dataset.objects.exists()
