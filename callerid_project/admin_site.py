"""Django's admin, with a brake on guessing passwords."""

from typing import Any

from django.conf import settings
from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse

from accounts import brake


class BrakedAdminSite(AdminSite):
    site_header = "Caller ID"
    site_title = "Caller ID"
    index_title = "Operations"
    site_url = "/docs"

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Every attempt counts, so that the limit holds however many are sent at once."""
        if request.method == "POST":
            try:
                brake.count_failure(request, group="admin-login", rate=settings.ADMIN_LOGIN_RATE)
            except brake.TooManyFailures as error:
                return HttpResponse(
                    f"Too many attempts to log in. Try again in {error.wait_s} seconds.",
                    status=429,
                    content_type="text/plain; charset=utf-8",
                    headers={"Retry-After": str(error.wait_s)},
                )
        return super().login(request, extra_context)
