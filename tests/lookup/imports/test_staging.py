"""Staging tables: text arrives unchanged, and no table is left behind."""

import pytest

from lookup.imports.staging import staging_tables

pytestmark = pytest.mark.django_db


def test_no_temporary_table_is_left_behind() -> None:
    for rows in ([(1,)], []):
        with staging_tables() as tables:
            assert tables.fill("staged", {"number": "bigint"}, rows) == len(rows)
            assert tables.count("staged") == len(rows)


@pytest.mark.parametrize(
    "name",
    ["back\\slash", "tab\there", "line\nbreak", "return\r", "\\.", 'quo"te', "\\N", "", "100% %s", "名前", "it's"],
)
def test_text_arrives_unchanged(name: str) -> None:
    with staging_tables() as tables:
        tables.fill("staged", {"name": "text", "location": "text"}, [(name, name)])
        assert tables.query("SELECT name, location FROM staged") == [(name, name)]
