from core.addons import Addon


class Plain(Addon):
    name = "tests.addons.plain"
