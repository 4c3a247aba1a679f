from core.addons import Addon


class UploadsAddon(Addon):
    name = "contrib.uploads"
    adopts = (("phonebook", ("importupload", "importpart", "importchange")),)
