from core.addons import Addon


class RevenueAddon(Addon):
    name = "contrib.revenue"
