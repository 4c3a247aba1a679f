from core.addons import Addon


class TelemetryAddon(Addon):
    name = "contrib.telemetry"
