from console import pages
from core import retention
from monitoring import hooks

PACKAGE = "contrib.address_books"

hooks.CHECKS.add(f"{PACKAGE}.health.CHECK")
hooks.SOURCE_SECTIONS.add(hooks.Section("address_books/sources.html", f"{PACKAGE}.health.section"))
pages.EXTENSIONS.add(pages.Extension("phonebook.contact", f"{PACKAGE}.admin.ContactBook"))
retention.NUMBERED.add(
    retention.Numbered(
        *("address_book_contacts", "Contacts of address books", "deleted"),
        *(f"{PACKAGE}.erasure.count", f"{PACKAGE}.erasure.erase"),
        at_once=True,
    )
)
