"""What the page that pauses a source says about its open alerts."""

from typing import Any

from django.http import HttpRequest

from contrib.alerts import incidents
from core.admin import ConsoleAdmin
from monitoring.health.dependencies import SOURCE_KINDS


class PausedAlerts(ConsoleAdmin):
    def action_context(self, request: HttpRequest, url_path: str, obj: Any) -> dict[str, Any]:
        context = super().action_context(request, url_path, obj)
        if url_path != "pause":
            return context
        if not incidents.open_incidents().filter(kind__in=SOURCE_KINDS, subject=obj.pk).exists():
            return context
        text = (
            "Its open alerts end with the pause. They open again when it is resumed, until it works. Recipients get a "
            "message both times."
        )
        return {**context, "explanation": f"{context.get('explanation', '')} {text}".strip()}
