"""The samples of each shipped preset, and of the documentation's example, are read as they say."""

import re
from pathlib import Path

import pytest

from contrib.preset_tools import samples
from lookup.vendors import preset
from tests.lookup.vendors.conftest import Make
from tests.lookup.vendors.searches import shipped_preset
from tests.plugin import ROOT

NAMES = sorted(file.stem for file in preset.SHIPPED.glob("*.toml"))


@pytest.fixture(params=NAMES)
def shipped(request: pytest.FixtureRequest) -> preset.Preset:
    return shipped_preset(request.param)


def test_samples_are_read_as_documented(shipped: preset.Preset) -> None:
    problems = {result.sample.title: result.problems for result in samples.run(shipped) if result.problems}
    assert problems == {}


def test_each_rule_is_reached_by_a_sample(shipped: preset.Preset) -> None:
    assert samples.missing_samples(shipped, samples.run(shipped)) == []


def test_worked_example_of_the_docs_reads_its_samples(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "presets.md").read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "acme.toml").write_text(example, encoding="utf-8")
    acme = preset.load(tmp_path / "acme.toml")
    results = samples.run(acme)
    assert [result.problems for result in results] == [()] * 4
    assert samples.missing_samples(acme, results) == []


def test_sample_fails_whose_rule_is_not_boolean(make: Make) -> None:
    """Also if its status alone gives the outcome that the sample expects."""
    rule = '[[outcome]]\nstatus = [503]\nwhen = "name"\nis = "unavailable"\n\n[fields]'
    broken = make(("[fields]", rule), ("status = 503\n", 'status = 503\nbody = \'{"name":"x"}\'\n')).preset
    problems = {result.sample.title: result.problems for result in samples.run(broken) if result.problems}
    assert list(problems) == ["down"]
    assert "`name` is neither true, false nor null" in problems["down"][0]
