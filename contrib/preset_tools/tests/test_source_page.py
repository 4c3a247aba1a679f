"""The check of a source in the console reads the samples of its preset."""

from typing import Any

import pytest
from django.test import Client

from tests.console_pages import words
from tests.mock_vendors import Vendors

pytestmark = pytest.mark.django_db


def test_sample_that_is_read_otherwise_is_shown(
    vendors: Vendors, mine: Any, settings: Any, admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine(("known == `false`", "known == 'false'"))
    settings.SOURCE_A, settings.SOURCE_B = "mine", "complaints"
    monkeypatch.setenv("MINE_BASE_URL", vendors.a.url)
    shown = words(admin_client.post("/admin/monitoring/source/mine/check-now/", follow=True).text)
    assert "1 of 4 stored samples is not as expected. Correct the preset." in shown
    assert "expected not_found, got bad_response; outcome[1].when gives false" in shown
    assert len(vendors.a.heads) == 1
