"""The dashboard's first block: whether the service works."""

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone

from monitoring import service_status, source_report


def view(request: HttpRequest) -> HttpResponse:
    """The block alone, which status.js requests."""
    now = timezone.now()
    status = service_status.status(now, source_report.states(now))
    return TemplateResponse(request, "admin/status.html", {"status": status})
