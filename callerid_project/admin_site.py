"""Django's admin, with limits on guessing passwords and a second factor."""

from typing import Any, Literal

from django.conf import settings
from django.contrib import admin
from django.core.paginator import InvalidPage
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from unfold.sites import UnfoldAdminSite

from accounts import brake
from callerid_project import login_log, second_factor
from callerid_project.second_factor_pages import SecondFactorPages


class BrakedAdminSite(UnfoldAdminSite):
    index_title = "Dashboard"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._second_factor = SecondFactorPages(self)

    @property
    def urls(self) -> Any:
        admin.autodiscover()
        return super().urls

    def get_urls(self) -> list[URLPattern]:
        # Django's own logout is only for those who may see the console: whoever has no code must get out too.
        return [path("logout/", self.logout, name="logout"), *self._second_factor.urls(), *super().get_urls()]

    def is_staff(self, request: HttpRequest) -> bool:
        """Whether an active staff user has logged in, with or without a code."""
        return bool(super().has_permission(request))

    def has_permission(self, request: HttpRequest) -> bool:
        """Whether this session may see the console; every page of it asks."""
        return self.is_staff(request) and second_factor.is_satisfied(request)

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Every attempt counts, before its password is looked at, so that the limits hold however many are sent at
        once; and a name counts whether or not it is somebody's, so that the answer does not tell."""
        if request.method == "POST":
            rate = settings.ADMIN_LOGIN_RATE
            try:
                brake.count_attempt(request, group="admin-login", rate=rate)
                brake.count_attempt(request, group="admin-login-name", rate=rate, key=brake.user_name)
            except brake.TooManyAttempts as error:
                return self.too_many_attempts(request, error.wait_s, "password")
        elif self.is_staff(request) and not second_factor.is_satisfied(request):
            return self._second_factor.pending(request, request.GET.get("next", ""))
        response = super().login(request, extra_context)
        form = (getattr(response, "context_data", None) or {}).get("form")
        if request.method == "POST" and form is not None and (user := form.get_user()) and not user.is_staff:
            login_log.log_not_staff(request, user)
        return response

    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """It asks for the present password, so whoever holds a session alone could guess it here."""
        if request.method == "POST":
            try:
                brake.count_attempt(request, group="admin-password", rate=settings.ADMIN_LOGIN_RATE, key="user")
            except brake.TooManyAttempts as error:
                return self.too_many_attempts(request, error.wait_s, "password")
        return super().password_change(request, extra_context)

    def too_many_attempts(self, request: HttpRequest, wait_s: int, what: Literal["password", "code"]) -> HttpResponse:
        """The response to a throttled attempt at a password or at a code of the second factor."""
        login_log.log_throttled(request, what)
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
