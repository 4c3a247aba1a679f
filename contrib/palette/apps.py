from core.addons import Addon


class PaletteAddon(Addon):
    name = "contrib.palette"
