"""What is erased of a number when all that is known about it is."""

from collections.abc import Sequence

from contrib.address_books.models import AddressBookContact


def count(numbers: Sequence[str]) -> int:
    return AddressBookContact.objects.filter(number__in=map(int, numbers)).count()


def erase(numbers: Sequence[str]) -> int:
    """The cards stay, so that unchanged ones are not transferred again."""
    return AddressBookContact.objects.filter(number__in=map(int, numbers)).delete()[0]
