from core.addons import Addon


class RequestLogAddon(Addon):
    name = "contrib.request_log"
    adopts = (("monitoring", ("requestlogentry",)),)
