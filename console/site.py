"""The admin site: Django's, with rate limits on logins and the pages of a user's own two-factor authentication."""

import logging
from collections.abc import Callable
from typing import Any, cast

import django_otp
from django import forms
from django.contrib import admin, messages
from django.contrib.admin.views.decorators import staff_member_required
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.core import signing
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django_otp.models import Device
from django_otp.util import random_hex
from unfold.sites import UnfoldAdminSite
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminTextInputWidget

from console import login_limits, login_log, second_factor
from console.invitation_page import InvitationView
from core import history, throttling
from core.admin import submitted

#: How long the set-up page with a new secret can be submitted.
_SET_UP_WITHIN_S = 3600
_INVALID_CODE = (
    "This code is not valid. Each code works once, and codes from the app expire after 30 seconds; check the clock of "
    "your phone."
)
_CODE_ATTRS = {"autocomplete": "one-time-code", "autocapitalize": "none", "spellcheck": "false"}


class CodeForm(forms.Form):
    code = forms.CharField(
        max_length=40,
        widget=UnfoldAdminTextInputWidget(attrs={**_CODE_ATTRS, "autofocus": True}),
        help_text="Six digits from your authenticator app, or one of your recovery codes.",
    )


class SetUpForm(forms.Form):
    """Checks the password of the user of `request`, which counts against the limit of passwords."""

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

    def __init__(self, request: HttpRequest, *args: Any) -> None:
        super().__init__(*args)
        self._request = request

    def clean(self) -> None:
        if self.errors:
            return
        login_limits.count_password(self._request)
        if not self._request.user.check_password(self.cleaned_data["password"]):
            self.add_error("password", "This password is not correct. Enter the one you log in with.")


class ConfirmForm(forms.Form):
    proof = forms.CharField(
        label="Password or code",
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "off"}),
        help_text="Your password, a code from your app, or a recovery code.",
    )


class ConsoleSite(UnfoldAdminSite):
    index_title = "Dashboard"

    @property
    def urls(self) -> Any:
        admin.autodiscover()
        return super().urls

    def is_staff(self, request: HttpRequest) -> bool:
        """Whether an active staff user is logged in, with or without an authentication code."""
        return bool(super().has_permission(request))

    def has_permission(self, request: HttpRequest) -> bool:
        """Whether this session may open the console; checked by every page."""
        return self.is_staff(request) and second_factor.is_satisfied(request)

    def get_urls(self) -> list[URLPattern]:
        """`invitation` is open to whoever has a link, `verify` and `set-up` to staff before they have entered a code;
        the others require one."""
        verified = self.admin_view
        return [
            # Django's requires has_permission; staff who cannot enter a code must be able to log out too.
            path("logout/", self.logout, name="logout"),
            path("invitation/<uidb64>/<token>/", InvitationView.as_view(), name="invitation"),
            path("second-factor/", verified(self.overview), name="second_factor"),
            path("second-factor/verify/", self.verify, name="second_factor_verify"),
            path("second-factor/set-up/", self.set_up, name="second_factor_set_up"),
            path("second-factor/recovery-codes/", verified(self.recovery_codes), name="second_factor_recovery_codes"),
            path("second-factor/remove/", verified(self.remove), name="second_factor_remove"),
            *super().get_urls(),
        ]

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.method == "POST":
            login_limits.count_login(request)
        elif self.is_staff(request) and not second_factor.is_satisfied(request):
            return self.pending(request, request.GET.get("next", ""))
        response = super().login(request, extra_context)
        form = (getattr(response, "context_data", None) or {}).get("form")
        if request.method == "POST" and form is not None and (user := form.get_user()) and not user.is_staff:
            login_log.log_event(request, "login refused, not staff", user, level=logging.WARNING)
        return response

    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Rate-limited: the page asks for the current password, which the holder of a stolen session could guess."""
        if request.method == "POST":
            login_limits.count_password(request)
        return super().password_change(request, extra_context)

    def search(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The console's search, in place of unfold's, which puts the text into the URL."""
        from console import finding  # which needs the admin modules, and they this one

        return finding.view(request)

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
            return redirect(_next_url(request))
        if not second_factor.is_set_up(_user(request)):
            return self.pending(request, _next_url(request))
        form = CodeForm(submitted(request))
        if form.is_bound:
            login_limits.count_code(request)
            if device := _accepted_device(request, form, "code", _INVALID_CODE):
                _start_verified_session(request, device)
                login_log.record_login(request, _user(request))
                return redirect(_next_url(request))
        return self._page(request, "verify", "Two-factor authentication", form=form)

    @method_decorator([never_cache, sensitive_post_parameters(), staff_member_required(login_url="admin:login")])
    def set_up(self, request: HttpRequest) -> HttpResponse:
        """Show a new secret; once its first code is confirmed, show the recovery codes, this once.

        Asks for the password: a stolen session alone must not be able to enrol a device and lock its user out.
        """
        user = _user(request)
        if second_factor.is_set_up(user):
            return redirect("admin:second_factor")
        # The form carries the key, signed: a GET stores nothing.
        signed_key = _signed_key(request)
        key = signed_key or random_hex()
        form = SetUpForm(request, request.POST if signed_key else None)
        if form.is_valid():
            try:
                with transaction.atomic():
                    device, codes = second_factor.set_up(user, key=key, code=form.cleaned_data["code"])
                    _record(request, "Set up two-factor authentication.")
            except second_factor.AlreadySetUp:
                return redirect("admin:second_factor")
            except second_factor.InvalidCode:
                form.add_error("code", _INVALID_CODE)
            else:
                login_log.log_event(request, "second factor set up")
                _start_verified_session(request, device)
                if second_factor.is_required(user):  # else the login was complete after the password
                    login_log.record_login(request, user)
                return self._page(request, "shown_once", "Recovery codes", codes=codes, next_url=_next_url(request))
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

    def overview(self, request: HttpRequest) -> HttpResponse:
        return self._page(
            request,
            "overview",
            "Two-factor authentication",
            is_set_up=second_factor.is_set_up(_user(request)),
            codes_left=second_factor.recovery_codes_left(_user(request)),
        )

    def recovery_codes(self, request: HttpRequest) -> HttpResponse:
        def replace() -> HttpResponse:
            codes = second_factor.replace_recovery_codes(_user(request))
            _record(request, "Replaced the recovery codes.")
            next_url = reverse("admin:second_factor")
            return self._page(request, "shown_once", "Recovery codes", codes=codes, next_url=next_url)

        title, event = "New recovery codes", "recovery codes replaced"
        explanation = "You get ten new recovery codes. The earlier ones stop working."
        return self._confirm(request, replace, event, title, explanation=explanation, button="Create new codes")

    def remove(self, request: HttpRequest) -> HttpResponse:
        def remove() -> HttpResponse:
            second_factor.remove(_user(request))
            _record(request, "Removed two-factor authentication.")
            messages.success(request, "Two-factor authentication was removed.")
            return redirect("admin:second_factor")

        explanation = "Your authenticator app and your recovery codes stop working for this account. " + (
            "Two-factor authentication is required here, so you will be asked to set it up again."
            if second_factor.is_required(_user(request))
            else "You will log in with your password alone."
        )
        title, event = "Remove two-factor authentication", "second factor removed"
        return self._confirm(request, remove, event, title, explanation=explanation, button="Remove", variant="danger")

    @method_decorator(sensitive_post_parameters())
    def _confirm(
        self, request: HttpRequest, act: Callable[[], HttpResponse], event: str, title: str, **context: Any
    ) -> HttpResponse:
        """Ask for the password or a code, then `act` in a transaction and log `event`.

        A stolen session alone must not be able to change what protects the next login.
        """
        if not second_factor.is_set_up(_user(request)):
            return redirect("admin:second_factor")
        form = ConfirmForm(submitted(request))
        if form.is_bound:
            login_limits.count_password(request)
            if form.is_valid() and (
                _user(request).check_password(form.cleaned_data["proof"])
                or _accepted_device(request, form, "proof", "Neither your password nor a valid code.")
            ):
                with transaction.atomic():
                    response = act()
                login_log.log_event(request, event)
                return response
        context |= {"title": title, "form": form, "cancel_url": reverse("admin:second_factor")}
        return TemplateResponse(request, "admin/parts/form.html", {**self.each_context(request), **context})

    def _page(self, request: HttpRequest, template: str, title: str, **context: Any) -> HttpResponse:
        context = {**self.each_context(request), "title": title, **context}
        return TemplateResponse(request, f"admin/second_factor/{template}.html", context)


def _user(request: HttpRequest) -> User:
    """The user of a page that only staff can open."""
    return cast(User, request.user)


def _next_url(request: HttpRequest) -> str:
    """`next` if it is a URL of this service, else the dashboard."""
    url = request.GET.get("next", "")
    safe = url_has_allowed_host_and_scheme(url, allowed_hosts={request.get_host()}, require_https=request.is_secure())
    return url if safe else reverse("admin:index")


def _accepted_device(request: HttpRequest, form: forms.Form, field: str, invalid: str) -> Device | None:
    """The device that accepts the code in `field`. None if no device does: `form` then has the error."""
    try:
        if form.is_valid():
            return second_factor.verify(_user(request), form.cleaned_data[field])
    except second_factor.InvalidCode:
        form.add_error(field, invalid)
    except throttling.TooManyAttempts as error:
        form.add_error(field, f"Too many wrong codes. Try again in {error.wait_s} seconds.")
    throttling.FAILED_AUTHENTICATIONS.inc("code")
    login_log.log_event(request, "second factor refused", level=logging.WARNING)
    return None


def _start_verified_session(request: HttpRequest, device: Device) -> None:
    """Change the session key: whoever knew it before the code must not get a verified session."""
    request.session.cycle_key()
    django_otp.login(request, device)
    login_log.log_event(request, "second factor accepted")


def _record(request: HttpRequest, message: str) -> None:
    history.record(user=_user(request), action=history.Action.CHANGE, target=_user(request), message=message)


def _signed_key(request: HttpRequest) -> str | None:
    """The key that the submitted set-up page has shown. None if it was another user's page or is too old."""
    try:
        user_id, key = signing.loads(request.POST.get("secret", ""), salt=__name__, max_age=_SET_UP_WITHIN_S)
    except signing.BadSignature:
        return None
    return key if user_id == _user(request).pk else None
