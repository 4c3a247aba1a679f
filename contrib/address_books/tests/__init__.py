#: For tests/cases.
KINDS = {"address_book": "contrib.address_books.tests.kinds.address_book"}
#: For tests of erasure: the names of what is counted.
ERASED = {"address_book_contacts": 0}
#: For tests/test_patterns.py.
WORST = {
    "contrib.address_books.books._ATTRIBUTE": "a-",
    "contrib.address_books.carddav._STATUS": "HTTP/",
    "contrib.address_books.conf: [a-z][a-z0-9_]{0,31}": "a",
}
#: For tests/reliability/test_canary.py: code that stores a number and a name, and the columns that then have them.
CANARY = {
    "address_books": (
        "from contrib.address_books.models import AddressBook\n"
        "card = AddressBook.objects.create(name='office').addressbookcard_set.create(key='1')\n"
        "card.addressbookcontact_set.create(number={number}, name='{name}')"
    )
}
CANARY_COLUMNS = dict.fromkeys(("phonebook_addressbookcontact.number", "phonebook_addressbookcontact.name"))
