from core.addons import Addon


class FileLookupsAddon(Addon):
    name = "contrib.file_lookups"
    requires = ("uploads",)
    adopts = (("lookup", ("filelookup", "filelookuprow")),)
