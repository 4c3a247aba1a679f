"""Webhooks of customers: a customer's own system gets the low-balance notices of all its tokens, signed with a secret
that is the customer's own (contrib.alerts.webhooks)."""

from django.conf import settings

from accounts.models import Customer, CustomerWebhook
from contrib.alerts import webhooks
from core import addresses
from core.field_errors import FieldError


def save(*, customer: Customer, url: str = "") -> str:
    """The new secret of the customer's webhook, at `url`; at the present URL if that is empty.

    Raises ValueError if there is no URL, or it is not allowed.
    """
    secret = webhooks.new_secret()
    if url:
        try:
            addresses.require_url(url, public=not settings.CUSTOMER_WEBHOOKS_PRIVATE_NETWORK)
        except ValueError as error:
            raise FieldError("Enter a URL that begins with https:// and whose host is public.", "url") from error
        CustomerWebhook.objects.update_or_create(customer=customer, defaults={"url": url, "secret": secret})
    elif not CustomerWebhook.objects.filter(customer=customer).update(secret=secret):
        raise FieldError("Enter the URL of the webhook.", "url")
    return secret


def remove(*, customer: Customer) -> bool:
    """Delete the webhook with its secret; whether there was one."""
    return CustomerWebhook.objects.filter(customer=customer).delete()[0] > 0


def label(customer: Customer) -> str:
    """webhooks.label of the customer's webhook; empty if there is none."""
    webhook = CustomerWebhook.objects.filter(customer=customer).first()
    return webhooks.label(webhook.url) if webhook else ""
