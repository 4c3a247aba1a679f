from core.addons import Addon


class AlertsAddon(Addon):
    name = "contrib.alerts"
    adopts = (("monitoring", ("incident", "alertmute", "alertrecipient", "notice")),)
