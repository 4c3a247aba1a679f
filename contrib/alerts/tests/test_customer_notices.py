"""Low-balance notices to the webhook of a customer."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from accounts import credits, customers, tokens
from accounts.models import ApiToken, Customer
from contrib.alerts import customer_webhooks, notices, webhooks
from contrib.alerts.models import Notice
from contrib.alerts.tests.low_balances import CONTACT, account, search, sent
from contrib.alerts.tests.test_webhooks import headers
from tests.plugin import ROOT
from tests.smtp import Mailbox
from tests.upstream import Upstream, raw

pytestmark = pytest.mark.django_db


@pytest.fixture
def receiver(notices_on: None, vendor: Callable[..., Upstream]) -> Upstream:
    return vendor(raw(b"", 204))


@pytest.fixture
def private(settings: Any) -> None:
    settings.CUSTOMER_WEBHOOKS_PRIVATE_NETWORK = True


def owned(contact: str = "", **options: Any) -> ApiToken:
    """A token of a customer without contacts."""
    token = account(4, 3, contact, **options)
    ApiToken.objects.filter(pk=token.pk).update(customer=customers.create(name="Harbour Ltd"))
    return ApiToken.objects.get(pk=token.pk)


def of(token: ApiToken) -> Customer:
    return Customer.objects.get(tokens=token)


def test_charge_and_adjustment_notify_a_webhook_without_contacts(receiver: Upstream, private: None) -> None:
    for lower in (search, lambda token: credits.adjust(token=token, amount=-1, actor="op", reason="mistake")):
        token = owned()
        customer_webhooks.save(customer=of(token), url=f"{receiver.url}/hook")
        lower(token)
        assert sorted(sent()) == ["not needed", "sent"]
        assert sent() == []
    assert len(receiver.bodies) == 2


def test_documented_message_is_signed_with_the_customers_secret(
    receiver: Upstream, private: None, settings: Any
) -> None:
    settings.ALERT_WEBHOOK_SECRETS = [webhooks.new_secret()]
    token = owned(name="Reception")
    secret = customer_webhooks.save(customer=of(token), url=receiver.url)
    search(token)
    sent()
    body, head = receiver.bodies[0], headers(receiver)
    assert [head["webhook-signature"]] == [
        webhooks.signature(
            secret=secret, message_id=head["webhook-id"], timestamp=int(head["webhook-timestamp"]), body=body
        )
    ]
    message = json.loads(body)
    documented = json.loads((ROOT / "docs" / "customer-page.md").read_text().split("```json\n")[-1].partition("```")[0])
    assert message["data"] == {"token_id": token.pk, "token_name": "Reception", "balance": 3, "threshold": 3}
    assert message["type"] == documented["type"]
    assert list(message) == list(documented)
    assert list(message["data"]) == list(documented["data"])


def test_contact_gets_the_e_mail_and_the_customer_the_webhook(
    receiver: Upstream, private: None, mailbox: Mailbox
) -> None:
    token = owned(CONTACT)
    customer_webhooks.save(customer=of(token), url=receiver.url)
    search(token)
    assert sent() == ["sent", "sent"]
    assert (mailbox.recipients(), len(receiver.bodies)) == ([CONTACT], 1)


def test_failed_message_is_repeated_with_the_new_secret(receiver: Upstream, private: None) -> None:
    token = owned()
    customer_webhooks.save(customer=of(token), url=receiver.url)
    receiver.behave_as(raw(b"", 401))
    search(token)
    assert sorted(sent()) == ["failed", "not needed"]
    secret = customer_webhooks.save(customer=of(token))
    receiver.behave_as(raw(b"", 200))
    notices.send_again(Notice.objects.all())
    assert sent() == ["sent"]
    head = receiver.heads[-1].decode()
    assert headers(receiver)["webhook-id"] in receiver.heads[0].decode()
    assert secret not in head


@pytest.mark.parametrize("obsolete", ["removed", "topped up", "revoked", "without customer"])
def test_obsolete_message_is_not_sent(receiver: Upstream, private: None, obsolete: str) -> None:
    token = owned()
    customer_webhooks.save(customer=of(token), url=receiver.url)
    receiver.behave_as(raw(b"", 500))
    search(token)
    assert sorted(sent()) == ["failed", "not needed"]
    match obsolete:
        case "removed":
            customer_webhooks.remove(customer=of(token))
        case "topped up":
            credits.top_up(token=token, amount=9, actor="op", reason="paid")
        case "revoked":
            tokens.revoke(token=token)
        case _:
            ApiToken.objects.update(customer=None)
    notices.send_again(Notice.objects.all())
    assert sent() == ["not needed"]
    assert len(receiver.bodies) == 1


def test_private_receiver_gets_nothing_unless_allowed(receiver: Upstream, settings: Any) -> None:
    token = owned()
    settings.CUSTOMER_WEBHOOKS_PRIVATE_NETWORK = True
    for url in (receiver.url, receiver.url.replace("127.0.0.1", "localhost")):
        customer_webhooks.save(customer=of(token), url=url)
        settings.CUSTOMER_WEBHOOKS_PRIVATE_NETWORK = False
        search(token)
        assert "failed" in sent()
        assert receiver.connections == 0
        settings.CUSTOMER_WEBHOOKS_PRIVATE_NETWORK = True
        credits.top_up(token=token, amount=1, actor="op", reason="again")


def test_notice_page_and_log_name_the_host_alone(
    receiver: Upstream, private: None, admin_client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    token = owned()
    secret = customer_webhooks.save(customer=of(token), url=f"{receiver.url}/path-is-private?key=1")
    receiver.behave_as(raw(b"", 500))
    search(token)
    sent()
    notice = Notice.objects.get(channel="webhook")
    shown = admin_client.get(f"/admin/alerts/notice/{notice.pk}/change/").text
    assert "127.0.0.1 (" in shown
    for text in (shown, caplog.text, admin_client.get("/admin/alerts/notice/").text):
        assert "path-is-private" not in text
        assert secret not in text
