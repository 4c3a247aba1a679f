"""Links of the kernel's pages to the request log, and its part of an erasure."""

from typing import Any

import pytest
from django.test import Client

from accounts import customers, tokens
from console import erasure
from contrib.request_log import log
from contrib.request_log.models import RequestLogEntry
from contrib.request_log.tests import URL
from core import write_buffer
from lookup.models import SourcePause
from monitoring.models import SourceResult
from tests.api import NUMBER, Integrator

pytestmark = pytest.mark.django_db

OTHER = "493023125043"
KNOWS = "tests.connectors.Knows"
PERSIAN = "\u0639\u0644\u06cc"


def test_page_of_a_token_links_its_requests(admin_client: Client) -> None:
    token = tokens.issue(name="pbx", initial_credits=30, actor="op").token
    address = f"{URL}?token=%23{token.pk}&since={token.created_at:%Y-%m-%d}"
    link = f'href="{address.replace("&", "&amp;")}">All requests of this token'
    assert link in admin_client.get(f"/admin/accounts/apitoken/{token.pk}/change/").text
    [each] = admin_client.get(address).context["cl"].form.filters
    assert (each.name, each.value) == ("token", token.pk)


@pytest.mark.usefixtures("frozen_dashboard")
@pytest.mark.parametrize("may_view", [True, False])
def test_reason_of_a_failure_links_to_its_requests(staff: Any, settings: Any, may_view: bool) -> None:
    settings.SOURCE_A = KNOWS
    client = staff("view_source", *(["view_requestlogentry"] if may_view else []))
    failure = SourceResult.objects.create(connector=KNOWS, reason="late", last_ms=1773065940000)
    address = f"{URL}?failed={KNOWS}&reason=late&since={failure.at:%Y-%m-%d}"
    link = f'<a href="{address.replace("&", "&amp;")}">late: no reply in time</a>'
    text = client.get(f"/admin/monitoring/source/{KNOWS}/change/").text
    assert "late: no reply in time" in text
    assert (link in text) is may_view
    if may_view:
        assert not client.get(address).context["cl"].form.errors


def test_failures_of_a_source_that_is_gone_have_no_link(admin_client: Client) -> None:
    """The filter would not know it."""
    SourcePause.objects.create(connector="gone", reason="r", paused_by="olga")
    SourceResult.objects.create(connector="gone", reason="late", last_ms=4_000_000_000_000)
    text = admin_client.get("/admin/monitoring/source/gone/change/").text
    assert "late: no reply in time" in text
    assert "failed=gone" not in text


def test_id_after_a_name_from_right_to_left_is_not_mirrored(admin_client: Client) -> None:
    customer = customers.create(name=PERSIAN, contacts=[])
    token = tokens.issue(name=PERSIAN, initial_credits=1, actor="op", customer=customer).token
    shown = f"<bdi>{PERSIAN}</bdi> (#{token.pk})</a>."
    assert shown in admin_client.get(f"{URL}?token=%23{token.pk}").text


def test_erasure_clears_mask_and_hash_of_that_number_only(integrator: Integrator) -> None:
    for number in (NUMBER, OTHER):
        integrator.search(number)
    write_buffer.process_buffer.flush()
    assert erasure.count([NUMBER])["requests"] == log.count([NUMBER]) == 1
    assert erasure.erase([NUMBER])["requests"] == 1
    logged = RequestLogEntry.objects.order_by("pk").values_list("number_mask", "number_hash")
    assert [(mask, bool(number_hash)) for mask, number_hash in logged] == [("", False), ("49********43", True)]
    assert erasure.erase([NUMBER])["requests"] == 0
