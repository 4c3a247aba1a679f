from core.addons import Addon


class FileFormatsAddon(Addon):
    name = "contrib.file_formats"
