"""The admin site: Django's, with rate limits on logins and the pages of a user's own two-factor authentication."""

import logging
from collections.abc import Callable
from functools import wraps
from http import HTTPStatus
from typing import Any, cast

import django_otp
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.admin.views.autocomplete import AutocompleteJsonView
from django.contrib.admin.views.decorators import staff_member_required
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.core import signing
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.templatetags.static import static
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.module_loading import import_string
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django_otp.models import Device
from django_otp.util import random_hex
from unfold.forms import AuthenticationForm
from unfold.sites import UnfoldAdminSite
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminRadioSelectWidget, UnfoldAdminTextInputWidget

from console import login_limits, login_log, pages, second_factor
from console.invitation_page import InvitationView
from core import attempt_limits, history
from core.admin import ConsoleAdmin, Secret, require, submitted

#: How long the set-up page with a new secret can be submitted.
_SET_UP_WITHIN_S = 3600
_INVALID_CODE = (
    "This code is not valid. Each code works once, and codes from the app expire after 30 seconds; check the clock of "
    "your phone."
)
#: The cookie that says what the browser has done when its session had ended, and how long it lasts.
_ENDED, _ENDED_S = "session_ended", 600
_CODE_ATTRS = {"autocomplete": "one-time-code", "autocapitalize": "none", "spellcheck": "false"}


#: The console's own.
_VIEWS = (
    pages.View("status/", "console.status_page.view", "status", "monitoring.view_source"),
    pages.View("running-out/", "console.dashboard.running_out", "running_out", "accounts.view_apitoken"),
)


def _permitted(view: pages.View) -> Callable[[HttpRequest], HttpResponse]:
    """The view itself is imported by its first request: it needs the admin modules, and they this one."""

    def permitted(request: HttpRequest) -> HttpResponse:
        require(not view.permission or request.user.has_perm(view.permission))
        response: HttpResponse = import_string(view.view)(request)
        return response

    return permitted


class _UserForm(forms.Form):
    """A form that checks a password or a code of the user of `request`, within the limits of attempts."""

    def __init__(self, request: HttpRequest, data: Any = None) -> None:
        super().__init__(data)
        self.request = request

    def verified_device(self, code: str, invalid: str) -> Device:
        """The device that accepts `code`. Raises ValidationError; `invalid`: its message if no device does."""
        try:
            return second_factor.verify(_user(self.request), code)
        except second_factor.InvalidCode:
            message = invalid
        except attempt_limits.TooManyAttempts as error:
            message = f"Too many wrong codes. Try again in {error.wait_s} seconds."
        attempt_limits.FAILED_AUTHENTICATIONS.inc("code")
        login_log.log_event(self.request, "second factor refused", level=logging.WARNING)
        raise ValidationError(message)

    def is_password(self, password: str) -> bool:
        login_limits.count_password(self.request)
        return _user(self.request).check_password(password)


class CodeForm(_UserForm):
    code = forms.CharField(
        max_length=40,
        widget=UnfoldAdminTextInputWidget(attrs={**_CODE_ATTRS, "autofocus": True}),
        help_text="Six digits from your authenticator app, or one of your recovery codes.",
    )

    def clean_code(self) -> Device:
        login_limits.count_code(self.request)
        return self.verified_device(self.cleaned_data["code"], _INVALID_CODE)


class SetUpForm(_UserForm):
    code = forms.CharField(
        max_length=40,
        widget=UnfoldAdminTextInputWidget(attrs={**_CODE_ATTRS, "inputmode": "numeric"}),
        help_text="The six digits that the app shows now.",
    )
    password = forms.CharField(
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "current-password", "autofocus": True}),
        help_text="Your current password.",
    )

    def clean_password(self) -> None:
        if not self.is_password(self.cleaned_data["password"]):
            raise ValidationError("This password is not correct. Enter the one you log in with.")


class ChangeForm(_UserForm):
    """A stolen session alone must not be able to change what protects the next login."""

    action = forms.ChoiceField(
        label="What do you want to do?",
        choices=[
            ("codes", "Create ten new recovery codes. The earlier ones stop working."),
            ("remove", "Remove two-factor authentication. Your app and your recovery codes stop working."),
        ],
        widget=UnfoldAdminRadioSelectWidget,
        error_messages={"required": "Select one of these."},
    )
    proof = forms.CharField(
        label="Password or code",
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "off"}),
        help_text="Your password, a code from your app, or a recovery code.",
    )

    def clean_proof(self) -> None:
        if "action" not in self.cleaned_data:
            return  # without using a code up
        if not self.is_password(self.cleaned_data["proof"]):
            self.verified_device(self.cleaned_data["proof"], "Neither your password nor a valid code.")


class SuggestionsView(AutocompleteJsonView):
    """Django's, with a detail of each result."""

    def serialize_result(self, obj: Any, to_field_name: str) -> dict[str, str]:
        detail = cast(ConsoleAdmin, self.model_admin).suggestion_detail(obj)
        return {**super().serialize_result(obj, to_field_name), "detail": detail}


class LoginForm(AuthenticationForm):
    use_required_attribute = False  # the browser's own message would hide the other errors


class ConsoleSite(UnfoldAdminSite):
    index_title = "Dashboard"
    login_form = LoginForm

    @property
    def urls(self) -> Any:
        pages.discover()
        return super().urls

    def is_staff(self, request: HttpRequest) -> bool:
        """Whether an active staff user is logged in, with or without an authentication code."""
        return bool(super().has_permission(request))

    def has_permission(self, request: HttpRequest) -> bool:
        """Whether this session may open the console; checked by every page."""
        return self.is_staff(request) and second_factor.is_satisfied(request)

    def autocomplete_view(self, request: HttpRequest) -> HttpResponseBase:
        return SuggestionsView.as_view(admin_site=self)(request)

    def get_urls(self) -> list[URLPattern]:
        """`invitation` is open to whoever has a link, `verify` and `set-up` to staff before they have entered a code;
        the others require one."""
        verified = self.admin_view
        return [
            # Django's requires has_permission; staff who cannot enter a code must be able to log out too.
            path("logout/", self.logout, name="logout"),
            path("invitation/<uidb64>/<token>/", InvitationView.as_view(), name="invitation"),
            *(path(each.route, verified(_permitted(each)), name=each.name) for each in (*_VIEWS, *pages.VIEWS)),
            path("second-factor/", verified(self.overview), name="second_factor"),
            path("second-factor/verify/", self.verify, name="second_factor_verify"),
            path("second-factor/set-up/", self.set_up, name="second_factor_set_up"),
            *super().get_urls(),
        ]

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        """With the parts of the header that add-ons have."""
        context, parts = super().each_context(request), list(pages.HEADER)
        context["styles"] += [static(part.style) for part in parts]
        context["scripts"] += [static(part.script) for part in parts]
        return {**context, "header_parts": parts}

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """Remembers, in a cookie for the login page alone, why the browser is sent there, if its session has ended."""
        inner = super().admin_view(view, cacheable)

        @wraps(inner)
        def remembering(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            is_page = request.headers.get("Sec-Fetch-Mode", "navigate") == "navigate"
            was_anonymous = is_page and not request.user.is_authenticated
            response = inner(request, *args, **kwargs)
            if response.status_code != HTTPStatus.FOUND or not was_anonymous:
                return response
            # Django's CSRF check has passed: a form was submitted from a page of this browser.
            if request.method == "POST" or settings.SESSION_COOKIE_NAME in request.COOKIES:
                ended = "submitted" if request.method == "POST" else "opened"
                response.set_cookie(
                    _ENDED,
                    ended,
                    max_age=_ENDED_S,
                    path=reverse("admin:login"),
                    secure=settings.SESSION_COOKIE_SECURE,
                    httponly=True,
                    samesite="Lax",
                )
            return response

        return remembering

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.method == "POST":
            login_limits.count_login(request)
        elif self.is_staff(request) and not second_factor.is_satisfied(request):
            return self.pending(request, request.GET.get("next", ""))
        ended = request.COOKIES.get(_ENDED)
        response = super().login(request, {"session_ended": ended, **(extra_context or {})})
        if ended and response.status_code == HTTPStatus.FOUND:
            response.delete_cookie(_ENDED, path=request.path)
        form = (getattr(response, "context_data", None) or {}).get("form")
        if request.method == "POST" and form is not None and (user := form.get_user()) and not user.is_staff:
            login_log.log_event(request, "login refused, not staff", user, level=logging.WARNING)
        return response

    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Rate-limited: the page asks for the current password, which the holder of a stolen session could guess."""
        if request.method == "POST":
            login_limits.count_password(request)
        response = super().password_change(request, extra_context)
        if response.status_code != HTTPStatus.FOUND:
            return response
        user = _user(request)
        login_log.log_event(request, "password changed")
        history.record(action=history.Action.CHANGE, target=user, user=user, message="Changed their own password.")
        messages.success(request, "Your password was changed. Your other sessions are logged out.")
        return redirect("admin:index")

    def logout(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Redirects to the login page, which says so."""
        response = super().logout(request, extra_context)
        if request.method != "POST":
            return response
        messages.success(request, "You are logged out.")
        return redirect("admin:login")

    def search(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """In place of unfold's, which puts the text into the URL. An add-on may have another one (pages.VIEWS)."""
        raise Http404

    def pending(self, request: HttpRequest, next_url: str) -> HttpResponse:
        """Redirect to the page that this user must complete before any other, and from there to `next_url`."""
        name = "second_factor_verify" if second_factor.is_set_up(_user(request)) else "second_factor_set_up"
        page = reverse(f"admin:{name}")
        return redirect_to_login(next_url, page) if next_url else redirect(page)

    # --- Before the console --------------------------------------------------------------------------------------

    @method_decorator([never_cache, sensitive_post_parameters(), staff_member_required(login_url="admin:login")])
    def verify(self, request: HttpRequest) -> HttpResponse:
        """Ask for the code that a session needs after the password."""
        if second_factor.is_satisfied(request):
            return HttpResponseRedirect(_next_url(request))
        if not second_factor.is_set_up(_user(request)):
            return self.pending(request, _next_url(request))
        form = CodeForm(request, submitted(request))
        if form.is_valid():
            _start_verified_session(request, form.cleaned_data["code"])
            login_log.record_login(request, _user(request))
            return HttpResponseRedirect(_next_url(request))
        return self._page(request, "verify", "Two-factor authentication", form=form)

    @method_decorator([never_cache, sensitive_post_parameters(), staff_member_required(login_url="admin:login")])
    def set_up(self, request: HttpRequest) -> HttpResponse:
        """Show a new secret; once its first code is confirmed, show the recovery codes, this once.

        Asks for the password: a stolen session alone must not be able to enrol a device and lock its user out.
        """
        user = _user(request)
        if second_factor.is_set_up(user):
            return redirect("admin:second_factor")
        # The form carries the key, signed. In the session, a thief of the session could read it.
        signed_key = _signed_key(request)
        key = signed_key or random_hex()
        form = SetUpForm(request, request.POST if signed_key else None)
        if form.is_valid():
            try:
                device, codes = second_factor.set_up(user, key=key, code=form.cleaned_data["code"])
            except second_factor.AlreadySetUp:
                return redirect("admin:second_factor")
            except second_factor.InvalidCode:
                form.add_error("code", _INVALID_CODE)
            else:
                login_log.log_event(request, "second factor set up")
                _start_verified_session(request, device)
                if second_factor.is_required(user):  # else the login was complete after the password
                    login_log.record_login(request, user)
                messages.success(request, "Two-factor authentication is on.")
                return self._codes_page(request, codes, _next_url(request))
        if form.is_bound:
            login_log.log_event(request, "second factor refused", level=logging.WARNING)
        return self._page(
            request,
            "set_up",
            "Set up two-factor authentication",
            form=form,
            secret=signing.dumps([user.pk, key], salt=__name__),
            expired=request.method == "POST" and not signed_key,
            qr_code=second_factor.qr_code(user, key),
            typed=second_factor.typed_key(key),
        )

    # --- In the console ------------------------------------------------------------------------------------------

    @method_decorator(sensitive_post_parameters())
    def overview(self, request: HttpRequest) -> HttpResponse:
        """Whether the user has two-factor authentication; if so, creates new recovery codes or removes it."""
        user, here = _user(request), reverse("admin:second_factor")
        is_set_up = second_factor.is_set_up(user)
        form = ChangeForm(request, submitted(request)) if is_set_up else None
        if form and form.is_valid():
            if form.cleaned_data["action"] == "codes":
                codes = second_factor.replace_recovery_codes(user)
                login_log.log_event(request, "recovery codes replaced")
                return self._codes_page(request, codes, here)
            second_factor.remove(user, "Removed two-factor authentication.", by=user)
            login_log.log_event(request, "second factor removed")
            messages.success(request, "Two-factor authentication was removed.")
            return redirect(here)
        return self._page(
            request,
            "overview",
            "Two-factor authentication",
            form=form,
            button="Continue",
            cancel_url=reverse("admin:index"),
            codes_left=second_factor.recovery_codes_left(user),
            is_required=second_factor.is_required(user),
        )

    def _codes_page(self, request: HttpRequest, codes: list[str], back_url: str) -> HttpResponse:
        context = {
            "title": "Recovery codes",
            "original": _user(request),
            "warning": "These codes are shown only once. Store them in a safe place, such as a password manager.",
            "note": "Use a code to log in without the app, for example if you lose your phone. Each works once.",
            "secrets": [Secret("codes", "Recovery codes", "\n".join(codes), "Copy codes")],
            "back_url": back_url,
        }
        return TemplateResponse(request, "admin/parts/shown_once.html", {**self.each_context(request), **context})

    def _page(self, request: HttpRequest, template: str, title: str, **context: Any) -> HttpResponse:
        context = {**self.each_context(request), "title": title, **context}
        return TemplateResponse(request, f"admin/second_factor/{template}.html", context)


def _user(request: HttpRequest) -> User:
    """The user of a page that only staff can open."""
    return cast(User, request.user)


def _next_url(request: HttpRequest) -> str:
    """`next` if it is a URL of this service, else the dashboard. Not for `redirect`, which takes a word for a view."""
    url = request.GET.get("next", "")
    safe = url_has_allowed_host_and_scheme(url, allowed_hosts={request.get_host()}, require_https=request.is_secure())
    return url if safe else reverse("admin:index")


def _start_verified_session(request: HttpRequest, device: Device) -> None:
    """Change the session key: whoever knew it before the code must not get a verified session."""
    request.session.cycle_key()
    django_otp.login(request, device)
    login_log.log_event(request, "second factor accepted")


def _signed_key(request: HttpRequest) -> str | None:
    """The key that the submitted set-up page has shown. None if it was another user's page or is too old."""
    try:
        user_id, key = signing.loads(request.POST.get("secret", ""), salt=__name__, max_age=_SET_UP_WITHIN_S)
    except signing.BadSignature:
        return None
    return key if user_id == _user(request).pk else None
