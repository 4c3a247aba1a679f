from core.addons import Addon


class PresetToolsAddon(Addon):
    name = "contrib.preset_tools"
