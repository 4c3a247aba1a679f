from core.addons import Addon


class LookupTesterAddon(Addon):
    name = "contrib.lookup_tester"
