"""Settings of downloads: an invalid one ends the start with one sentence that says what to write instead."""

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from tests.callerid_project.test_settings import load

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({"REFRESH_SOURCES": "ftc,irs"}, "REFRESH_SOURCES names irs; it must be some of ftc,fcc,phoneblock."),
        ({"REFRESH_FTC_URL": "https://mirror.test/file.csv"}, "file{day}"),
        *(
            ({"REFRESH_FCC_URL": bad}, "REFRESH_FCC_URL must be a URL")
            for bad in ("/srv/fcc.csv", "file:///srv/fcc.csv", "https://", "https://h:x/")
        ),
    ],
)
def test_an_invalid_setting_is_reported(tmp_path: Path, environment: dict[str, str], told: str) -> None:
    with pytest.raises(ImproperlyConfigured) as raised:
        load(tmp_path, **environment)
    assert told in str(raised.value)


def test_a_space_separates_as_a_comma_does(tmp_path: Path) -> None:
    assert load(tmp_path, REFRESH_SOURCES="ftc fcc").REFRESH_SOURCES == ["ftc", "fcc"]
