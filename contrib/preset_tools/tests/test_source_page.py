"""The check of a source in the console reads the samples of its preset."""

from typing import Any

import pytest
from django.test import Client

from lookup.models import SourceCheck
from tests.console_pages import words

pytestmark = pytest.mark.django_db


def test_sample_read_otherwise_is_shown_without_a_call(mine: Any, settings: Any, admin_client: Client) -> None:
    mine(("known == `false`", "known == 'false'"), ("[fields]", '[coverage]\nregions = ["DE"]\n\n[fields]'))
    settings.SOURCE_A, settings.SOURCE_B = "mine", "complaints"
    shown = words(admin_client.post("/admin/monitoring/source/mine/check-now/", follow=True).text)
    assert "1 of 4 stored samples" in shown
    assert "expected not_found, got bad_response; outcome[1].when gives false" in shown
    problems = [each["problem"] for each in SourceCheck.objects.get().result["samples"]]
    assert sum(map(bool, problems)) == 1
