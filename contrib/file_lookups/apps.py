from core.addons import Addon


class FileLookupsAddon(Addon):
    name = "contrib.file_lookups"
    adopts = (("lookup", ("filelookup", "filelookuprow")),)
