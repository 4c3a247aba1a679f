"""Signed links to a customer's own page, which needs no login.

No link is stored: it names the customer, the version of the customer's links, and when it expires.
"""

from datetime import timedelta

from django.core import signing
from django.db.models import F
from django.utils import timezone

from accounts.models import Customer

MAX_DAYS = 90
DEFAULT_DAYS = 7
#: In characters, with space for large ids.
MAX_LENGTH = 200
#: Part of the signature: links that customers have are valid only with this text.
_SALT = "accounts.customer_links"


class InvalidLink(Exception):
    """Not a link that this service signed."""


class LinkEnded(InvalidLink):
    """The link has expired, was revoked, or its customer was deleted."""


def make(*, customer: Customer, days: int) -> str:
    """The last part of the link's URL. Raises ValueError for `days` other than 1 to MAX_DAYS."""
    if not 1 <= days <= MAX_DAYS:
        raise ValueError(f"A link is valid for 1 to {MAX_DAYS} days.")
    expires_at = int((timezone.now() + timedelta(days=days)).timestamp())
    return signing.Signer(salt=_SALT).sign_object([customer.pk, customer.links_version, expires_at])


def read(link: str) -> Customer:
    """The customer whose page the link opens. Raises InvalidLink or LinkEnded."""
    if len(link) > MAX_LENGTH:
        raise InvalidLink
    try:
        customer_id, version, expires_at = signing.Signer(salt=_SALT).unsign_object(link)
    except signing.BadSignature as error:
        raise InvalidLink from error
    if expires_at <= timezone.now().timestamp():
        raise LinkEnded
    customer = Customer.objects.filter(pk=customer_id, links_version=version).first()
    if customer is None:
        raise LinkEnded
    return customer


def revoke(*, customer: Customer) -> None:
    """End all links to the customer's page."""
    Customer.objects.filter(pk=customer.pk).update(links_version=F("links_version") + 1)
