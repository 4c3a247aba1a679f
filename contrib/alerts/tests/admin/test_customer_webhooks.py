"""The webhook of a customer: set, rotated and removed in the console."""

import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from accounts import customers
from accounts.models import Customer, CustomerWebhook
from contrib.alerts import customer_webhooks, webhooks
from tests.accounts.admin.pages import CUSTOMERS, edit_page_of, page_of, submit

pytestmark = pytest.mark.django_db

URL = "https://hooks.example.org/path-is-private?key=1"
LABEL = webhooks.label(URL)


@pytest.fixture
def customer() -> Customer:
    return customers.create(name="Example Ltd")


def url_of(customer: Customer, action: str = "webhook") -> str:
    return f"{CUSTOMERS}{customer.pk}/{action}/"


def test_secret_is_shown_once_and_the_url_by_its_label(admin_client: Client, customer: Customer) -> None:
    shown = submit(admin_client, url_of(customer), url=URL)
    secret = re.findall(r'<pre id="webhook_secret"[^>]*>(.*?)</pre>', shown.text)[0]
    webhook = CustomerWebhook.objects.get()
    assert (webhook.url, webhook.secret) == (URL, secret)
    webhooks.secret_bytes(secret)
    pages = [
        page_of(customer),
        edit_page_of(customer),
        url_of(customer),
        CUSTOMERS,
        f"{CUSTOMERS}{customer.pk}/delete/",
    ]
    for page in (*pages, "/admin/admin/logentry/"):
        text = admin_client.get(page).text
        assert secret not in text, page
        assert "path-is-private" not in text, page
    for page in (page_of(customer), url_of(customer)):
        assert LABEL in admin_client.get(page).text
    assert LogEntry.objects.get().get_change_message() == f"Set the webhook {LABEL}, with a new secret."


def test_saving_without_a_url_replaces_the_secret(admin_client: Client, customer: Customer) -> None:
    assert "Enter the URL of the webhook." in submit(admin_client, url_of(customer)).text
    first = customer_webhooks.save(customer=customer, url=URL)
    assert "Copy this secret now." in submit(admin_client, url_of(customer)).text
    webhook = CustomerWebhook.objects.get()
    assert webhook.url == URL
    assert webhook.secret != first


def test_removed_webhook_leaves_no_secret(admin_client: Client, customer: Customer) -> None:
    assert url_of(customer, "remove-webhook") not in admin_client.get(page_of(customer)).text
    customer_webhooks.save(customer=customer, url=URL)
    assert url_of(customer, "remove-webhook") in admin_client.get(page_of(customer)).text
    submit(admin_client, url_of(customer, "remove-webhook"))
    assert not CustomerWebhook.objects.exists()
    submit(admin_client, url_of(customer, "remove-webhook"))
    assert LogEntry.objects.get().get_change_message() == "Removed the webhook."


def test_deleting_the_customer_deletes_the_secret(admin_client: Client, customer: Customer) -> None:
    customer_webhooks.save(customer=customer, url=URL)
    assert admin_client.post(f"{CUSTOMERS}{customer.pk}/delete/", {"post": "yes"}).status_code == 302
    assert not CustomerWebhook.objects.exists()


REFUSED = [
    *("http://hooks.example.org/", "ftp://hooks.example.org/", "hooks.example.org", "https://", "https://a b/"),
    *("https://localhost/", "https://127.0.0.1:9000/", "https://10.0.0.8/", "https://[fd00::1]/", "http://10.0.0.8/"),
    *("https://169.254.169.254/", "https://[::ffff:10.0.0.8]/", "https://hooks.example.org/#x"),
]


@pytest.mark.parametrize("url", REFUSED)
def test_url_must_be_https_and_public(admin_client: Client, customer: Customer, url: str) -> None:
    answer = submit(admin_client, url_of(customer), url=url)
    assert "Enter a URL that begins with https:// and whose host is public." in answer.text
    assert not CustomerWebhook.objects.exists()


def test_private_addresses_can_be_allowed(customer: Customer, settings: Any) -> None:
    settings.CUSTOMER_WEBHOOKS_PRIVATE_NETWORK = True
    for url in ("http://10.0.0.8/hook", "https://10.0.0.8/hook", "http://localhost:9000/"):
        customer_webhooks.save(customer=customer, url=url)
    with pytest.raises(ValueError, match="Enter a URL"):
        customer_webhooks.save(customer=customer, url="http://hooks.example.org/")
