from core.addons import Addon


class ErasurePageAddon(Addon):
    name = "contrib.erasure_page"
