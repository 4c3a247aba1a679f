"""Customers: their contacts, and the tokens that they own."""

import re
from collections.abc import Iterable

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import EmailField

from accounts.models import ApiToken, Customer, CustomerContact
from core.db import VENDOR, run
from core.field_errors import FieldError
from core.text import is_printable, without_joiners

#: How many tokens a customer has at most: the customer's pages read all of them.
MAX_TOKENS = 1_000


class NoSuchName(ValueError):
    """No customer has the name."""


def clean_name(name: str, *, of: str = "customer") -> str:
    """The name in one line. Raises ValueError when it is empty, over 100 characters or not printable (core.text)."""
    name = " ".join(name.split())
    if not name or len(name) > 100 or not is_printable(name):
        raise ValueError(f"A {of} needs a name of 1 to 100 printable characters.")
    return name


def clean_contact(address: str) -> str:
    """The e-mail address. Raises ValueError for anything else."""
    try:
        EmailField().clean(address, None)
    except ValidationError as error:
        raise ValueError("A contact must be an e-mail address of 254 characters at most.") from error
    return address


def create(*, name: str, note: str = "", contacts: Iterable[str] = ()) -> Customer:
    """A new customer. `contacts`: e-mail addresses, which get low-balance notices.

    Raises ValueError for an invalid name or address.
    """
    name = clean_name(name)
    addresses = dict.fromkeys(map(clean_contact, contacts))
    with transaction.atomic():
        customer = Customer.objects.create(name=name, note=note)
        CustomerContact.objects.bulk_create(CustomerContact(customer=customer, email=address) for address in addresses)
    return customer


def find_or_reserve(*, name: str) -> Customer | None:
    """The customer with this name, in any case, and with or without joiners. If there is none, nobody else creates it
    by this function or `get_or_create` until the end of the transaction in which it is called.

    Raises ValueError for an invalid name, or if several customers have it.
    """
    name = clean_name(name)
    if VENDOR == "postgresql":  # SQLite has one writer at a time
        run("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"customer {without_joiners(name).lower()}"])
    return _named(name)


def get_or_create(*, name: str) -> tuple[Customer, bool]:
    """As `find_or_reserve`, but creates the customer if there is none; and whether it is new."""
    found = find_or_reserve(name=name)
    return (found, False) if found else (create(name=name), True)


def get_by_name_or_id(text: str) -> Customer:
    """The customer that `text` means: `12`, `#12`, `Example Ltd (#12)`, or the whole name, in any case, if only one
    customer has it. Raises ValueError for anything else; the message says what to enter."""
    text = text.strip()
    if match := re.fullmatch(r"#?([0-9]{1,18})|.*\(#([0-9]{1,18})\)", text, re.DOTALL):
        customer = Customer.objects.filter(pk=match[1] or match[2]).first()
        if customer is None:
            raise ValueError("There is no customer with this id.")
        return customer
    found = _named(text)
    if found is None:
        raise NoSuchName("There is no customer with this name. Enter the customer's id, such as #12.")
    return found


def _named(name: str) -> Customer | None:
    """Raises ValueError if several customers have this name. Joiners do not tell names apart: they cannot be seen."""
    found = Customer.objects.filter(name__shown__iexact=without_joiners(name))[:2]
    if len(found) > 1:
        raise ValueError("Several customers have this name. Enter the customer's id, such as #12.")
    return found[0] if found else None


def lock_for_token(customer: Customer) -> None:
    """Lock the customer against its deletion. Call it in the transaction that gives it a token.

    Raises ValueError if the customer was deleted or may not get another token.
    """
    if Customer.objects.select_for_update(no_key=True).filter(pk=customer.pk).first() is None:
        raise FieldError(f"{customer} was deleted meanwhile. Choose another customer.", "customer")
    if ApiToken.objects.filter(customer=customer).count() >= MAX_TOKENS:
        raise FieldError(
            f"A customer has at most {MAX_TOKENS:,} tokens, and {customer} has as many. Choose another one.",
            "customer",
        )
