from core.addons import Addon


class EvaluationAddon(Addon):
    name = "contrib.evaluation"
