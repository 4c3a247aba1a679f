from core.addons import Addon


class Plain(Addon):
    name = "tests.addons.plain"
    adopts = (("plain_before", ("row",)),)
