"""Django's admin, with a brake on guessing passwords."""

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.core.paginator import InvalidPage
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from unfold.sites import UnfoldAdminSite

from accounts import brake


class BrakedAdminSite(UnfoldAdminSite):
    index_title = "Dashboard"

    @property
    def urls(self) -> Any:
        admin.autodiscover()
        return super().urls

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Every attempt counts, before its password is looked at, so that the limits hold however many are sent at
        once; and a name counts whether or not it is somebody's, so that the answer does not tell."""
        if request.method == "POST":
            rate = settings.ADMIN_LOGIN_RATE
            try:
                brake.count_attempt(request, group="admin-login", rate=rate)
                brake.count_attempt(request, group="admin-login-name", rate=rate, key=brake.user_name)
            except brake.TooManyAttempts as error:
                return self._too_many_attempts(request, error.wait_s)
        return super().login(request, extra_context)

    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """It asks for the present password, so whoever holds a session alone could guess it here."""
        if request.method == "POST":
            try:
                brake.count_attempt(request, group="admin-password", rate=settings.ADMIN_LOGIN_RATE, key="user")
            except brake.TooManyAttempts as error:
                return self._too_many_attempts(request, error.wait_s)
        return super().password_change(request, extra_context)

    def _too_many_attempts(self, request: HttpRequest, wait_s: int) -> HttpResponse:
        return TemplateResponse(
            request,
            "admin/too_many_attempts.html",
            {**self.each_context(request), "title": "Too many attempts", "wait_s": wait_s},
            status=429,
            headers={"Retry-After": str(wait_s)},
        )

    def search(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """unfold's search has no answer to a page that there is not."""
        try:
            return super().search(request, extra_context)
        except (ValueError, InvalidPage) as error:
            raise Http404 from error
