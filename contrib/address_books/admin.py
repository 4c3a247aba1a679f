"""The address book of a contact, on its page and in the list."""

from core.admin import ConsoleAdmin
from core.cells import column
from phonebook.admin.numbers import ContactAdmin


class ContactBook(ConsoleAdmin):
    """A contact from an address book that is changed in the console becomes the operator's own, which no
    synchronization changes."""

    list_display = ("phone", "name", "location", "address_book", "updated")
    shown = ("address_book", "updated")
    warning = (
        f"{ContactAdmin.warning} Once you save a contact here, its address book no longer updates it. If you delete "
        "it, the next synchronization adds it again."
    )
    address_book = column(lambda contact: contact.book or "-", "address book")
