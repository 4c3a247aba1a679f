from core.addons import Addon


class AddressBooksAddon(Addon):
    name = "contrib.address_books"
    adopts = (("phonebook", ("addressbook", "addressbookcard", "addressbookcontact")),)
