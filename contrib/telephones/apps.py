from core.addons import Addon


class TelephonesAddon(Addon):
    name = "contrib.telephones"
