from core.addons import Addon


class AddressBooksAddon(Addon):
    name = "contrib.address_books"
    requires = ("file_formats",)
    adopts = (("phonebook", ("addressbook", "addressbookcard", "addressbookcontact")),)
