"""The console's URLs of alerts from before they were an add-on, which notices have that were sent then."""

from django.conf import settings
from django.urls import path
from django.views.generic import RedirectView

_CONSOLE = f"{settings.ADMIN_PATH}/"

urlpatterns = [
    path(
        f"{_CONSOLE}monitoring/incident/",
        RedirectView.as_view(pattern_name="admin:alerts_incident_changelist", query_string=True),
    ),
    path(
        f"{_CONSOLE}monitoring/incident/<int:object_id>/change/",
        RedirectView.as_view(pattern_name="admin:alerts_incident_change"),
    ),
]
