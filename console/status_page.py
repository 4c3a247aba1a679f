"""The dashboard's first block: whether the service works."""

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone

from monitoring import service_status, source_report

PERMISSION = "monitoring.view_source"


def view(request: HttpRequest) -> HttpResponse:
    """The block alone, which status.js requests."""
    if not request.user.has_perm(PERMISSION):
        raise PermissionDenied
    now = timezone.now()
    status = service_status.status(now, source_report.states(now))
    return TemplateResponse(request, "admin/status.html", {"status": status})
