from typing import Any

from django.http import HttpRequest

from core.admin import ConsoleAdmin, form_action


class PlainActions(ConsoleAdmin):
    actions_detail = ("greet",)

    @form_action("Greet", "view")
    def greet(self, request: HttpRequest, obj: Any, data: dict[str, Any]) -> str:
        return f"Hello, {obj}."
