"""Settings of alerts: an invalid one ends the start with one sentence that says what to write instead."""

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from tests.callerid_project.test_settings import load

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        *(
            ({"ALERT_WEBHOOK_SECRET": bad}, "ALERT_WEBHOOK_SECRET must be whsec_ and the Base64 of 24 to 64")
            for bad in ("short", "whsec_c2hvcnQ=", f"whsec_{'s' * 33}", "x" * 40)
        ),
        ({"ALERT_WEBHOOK_PREVIOUS_SECRET": "x"}, "ALERT_WEBHOOK_PREVIOUS_SECRET must be whsec_"),
        *(
            ({"ALERT_WEBHOOK_URLS": bad}, "ALERT_WEBHOOK_URLS must be URLs")
            for bad in ("hooks.example.org", "https://h/,ftp://h/")
        ),
        ({"ALERT_WEBHOOK_URLS": "https://hunter2.test/"}, "requires ALERT_WEBHOOK_SECRET. Create one with"),
        ({"ALERT_EMAILS": "ops"}, "ALERT_EMAILS must be e-mail addresses"),
        ({"ALERT_EMAILS": "ops@example.org"}, "ALERT_EMAILS is set, which requires a mail server"),
    ],
)
def test_an_invalid_setting_is_reported(tmp_path: Path, environment: dict[str, str], told: str) -> None:
    with pytest.raises(ImproperlyConfigured) as raised:
        load(tmp_path, **environment)
    message = str(raised.value)
    assert told in message
    assert "hunter2" not in message


def test_a_space_separates_as_a_comma_does(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        ALERT_EMAILS="ops@example.org desk@example.org",
        EMAIL_URL="smtp://localhost:25",
        EMAIL_FROM="callerid@example.org",
    )
    assert settings.ALERT_EMAILS == ["ops@example.org", "desk@example.org"]
