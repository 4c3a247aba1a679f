"""The console's pages about the user's own second factor: the code after the password, set-up, recovery codes."""

import logging
from base64 import b32encode
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import django_otp
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.admin.models import CHANGE, LogEntry
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
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminTextInputWidget

from accounts import brake
from callerid_project import login_log, second_factor

if TYPE_CHECKING:
    from callerid_project.admin_site import BrakedAdminSite

#: How long a page with a new secret can be sent.
_SET_UP_WITHIN_S = 3600
_INVALID = "This code is not valid. Each code works once, and those of an app for half a minute: check its clock."


class _WrongPassword(Exception):
    """The password of the set-up page is not the user's."""


class CodeForm(forms.Form):
    code = forms.CharField(
        max_length=40,
        widget=UnfoldAdminTextInputWidget(
            attrs={"autocomplete": "one-time-code", "autocapitalize": "none", "spellcheck": "false", "autofocus": True}
        ),
        help_text="Six digits from your authenticator app, or one of your recovery codes.",
    )


class SetUpForm(CodeForm):
    password = forms.CharField(
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "current-password", "autofocus": True}),
        help_text="Your current password.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["code"].help_text = "The six digits that the app shows now."
        self.fields["code"].widget.attrs["inputmode"] = "numeric"
        del self.fields["code"].widget.attrs["autofocus"]


class ProofForm(forms.Form):
    proof = forms.CharField(
        label="Password or code",
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "off"}),
        help_text="Your password, a code from your app, or a recovery code.",
    )


class SecondFactorPages:
    def __init__(self, site: "BrakedAdminSite") -> None:
        self._site = site

    def urls(self) -> list[URLPattern]:
        """`verify` and `set-up` are for staff whose code is still missing; the others are pages of the console."""
        verified = self._site.admin_view
        return [
            path("second-factor/", verified(self.overview), name="second_factor"),
            path("second-factor/verify/", self.verify, name="second_factor_verify"),
            path("second-factor/set-up/", self.set_up, name="second_factor_set_up"),
            path("second-factor/recovery-codes/", verified(self.recovery_codes), name="second_factor_recovery_codes"),
            path("second-factor/remove/", verified(self.remove), name="second_factor_remove"),
        ]

    def pending(self, request: HttpRequest, wanted: str) -> HttpResponse:
        """To the page that is to come before all others; then to `wanted`."""
        name = "second_factor_verify" if second_factor.is_set_up(_user(request)) else "second_factor_set_up"
        page = reverse(f"admin:{name}")
        return redirect_to_login(wanted, page) if wanted else redirect(page)

    # --- Before the console --------------------------------------------------------------------------------------

    @method_decorator([never_cache, sensitive_post_parameters()])
    def verify(self, request: HttpRequest) -> HttpResponse:
        """Ask for the code that a session needs after the password."""
        if not self._site.is_staff(request):
            return redirect_to_login(request.get_full_path(), reverse("admin:login"))
        if second_factor.is_satisfied(request):
            return redirect(_wanted(request))
        if not second_factor.is_set_up(_user(request)):
            return self.pending(request, _wanted(request))
        form = CodeForm(request.POST if request.method == "POST" else None)
        if form.is_bound:
            try:
                _count_code(request)
            except brake.TooManyAttempts as error:
                return self._site.too_many_attempts(request, error.wait_s, "code")
            device = self._accepted(request, form, "code")
            if device is not None:
                _start_verified_session(request, device)
                login_log.record_login(request, _user(request))
                return redirect(_wanted(request))
        return self._page(request, "verify", "Second step", form=form)

    @method_decorator([never_cache, sensitive_post_parameters()])
    def set_up(self, request: HttpRequest) -> HttpResponse:
        """Show a new secret; the response to the password and its first code shows the recovery codes, this once.

        The password, because a session alone must not enrol a device that then keeps its user out.
        """
        if not self._site.is_staff(request):
            return redirect_to_login(request.get_full_path(), reverse("admin:login"))
        if second_factor.is_set_up(_user(request)):
            return redirect("admin:second_factor")
        sent = request.method == "POST"
        signed_key = _signed_key(request) if sent else None
        key = signed_key or second_factor.new_key()
        form = SetUpForm(request.POST if signed_key else None)
        if signed_key and form.is_valid():
            try:
                _count_password(request)
                if not _user(request).check_password(form.cleaned_data["password"]):
                    raise _WrongPassword
                with transaction.atomic():
                    device, codes = second_factor.set_up(_user(request), key=key, code=form.cleaned_data["code"])
                    _record(request, "Set up the second factor.")
            except brake.TooManyAttempts as error:
                return self._site.too_many_attempts(request, error.wait_s, "password")
            except second_factor.AlreadySetUp:
                return redirect("admin:second_factor")
            except _WrongPassword:
                form.add_error("password", "This password is not correct. Enter the one that you log in with.")
                _log_refused(request)
            except second_factor.InvalidCode:
                form.add_error("code", _INVALID)
                _log_refused(request)
            else:
                login_log.log_second_factor(request, "second factor set up")
                _start_verified_session(request, device)
                if settings.REQUIRE_2FA:  # else the login was complete after the password
                    login_log.record_login(request, _user(request))
                return self._page(request, "shown_once", "Recovery codes", codes=codes, wanted=_wanted(request))
        return self._page(
            request,
            "set_up",
            "Set up the second factor",
            form=form,
            secret=_signed(request, key),
            expired=sent and not signed_key,
            **_shown(request, key),
        )

    # --- In the console ------------------------------------------------------------------------------------------

    def overview(self, request: HttpRequest) -> HttpResponse:
        return self._page(
            request,
            "overview",
            "Second factor",
            is_set_up=second_factor.is_set_up(_user(request)),
            codes_left=second_factor.recovery_codes_left(_user(request)),
            required=settings.REQUIRE_2FA,
        )

    @method_decorator(sensitive_post_parameters())
    def recovery_codes(self, request: HttpRequest) -> HttpResponse:
        def act() -> HttpResponse:
            codes = second_factor.replace_recovery_codes(_user(request))
            _record(request, "Replaced the recovery codes.")
            return self._page(request, "shown_once", "Recovery codes", codes=codes, wanted=_overview())

        explanation = "You get ten new recovery codes. The earlier ones stop working."
        event = "recovery codes replaced"
        return self._prove(request, act, event, "New recovery codes", explanation, button="Make new codes")

    @method_decorator(sensitive_post_parameters())
    def remove(self, request: HttpRequest) -> HttpResponse:
        def act() -> HttpResponse:
            second_factor.remove(_user(request))
            _record(request, "Removed the second factor.")
            messages.success(request, "The second factor was removed.")
            return redirect("admin:second_factor")

        explanation = "Your app and your recovery codes stop working for this account. " + (
            "This installation requires a second factor, so you set up another one next."
            if settings.REQUIRE_2FA
            else "The password alone will log you in."
        )
        event, title = "second factor removed", "Remove the second factor"
        return self._prove(request, act, event, title, explanation, button="Remove", variant="danger")

    def _prove(
        self,
        request: HttpRequest,
        act: Callable[[], HttpResponse],
        event: str,
        title: str,
        explanation: str,
        **context: Any,
    ) -> HttpResponse:
        """Ask for the password or a code, then `act` in a transaction and log `event`.

        Whoever holds a session alone must not change what protects the next login.
        """
        if not second_factor.is_set_up(_user(request)):
            return redirect("admin:second_factor")
        form = ProofForm(request.POST if request.method == "POST" else None)
        if form.is_bound:
            try:
                _count_password(request)
            except brake.TooManyAttempts as error:
                return self._site.too_many_attempts(request, error.wait_s, "password")
            if form.is_valid() and (
                _user(request).check_password(form.cleaned_data["proof"])
                or self._accepted(request, form, "proof") is not None
            ):
                with transaction.atomic():
                    response = act()
                login_log.log_second_factor(request, event)
                return response
        return self._page(request, "prove", title, form=form, explanation=explanation, **context)

    # --- Shared --------------------------------------------------------------------------------------------------

    def _accepted(self, request: HttpRequest, form: forms.Form, field: str) -> Device | None:
        """The device that accepts the code in `field`; None where none does, which the form then says."""
        try:
            if form.is_valid():
                return second_factor.verify(_user(request), form.cleaned_data[field])
        except second_factor.InvalidCode:
            form.add_error(field, _INVALID if field == "code" else "Neither your password nor a valid code.")
        except second_factor.TooManyWrongCodes as error:
            form.add_error(field, f"Too many wrong codes. Try again in {error.wait_s} seconds.")
        _log_refused(request)
        return None

    def _page(self, request: HttpRequest, template: str, title: str, **context: Any) -> HttpResponse:
        context = {**self._site.each_context(request), "title": title, **context}
        return TemplateResponse(request, f"admin/second_factor/{template}.html", context)


def _user(request: HttpRequest) -> User:
    """Of a page for staff."""
    return cast(User, request.user)


def _overview() -> str:
    return reverse("admin:second_factor")


def _wanted(request: HttpRequest) -> str:
    """`next` where it is an address of this service, else the dashboard."""
    wanted = request.GET.get("next", "")
    safe = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return wanted if safe else reverse("admin:index")


def _count_code(request: HttpRequest) -> None:
    """Raises brake.TooManyAttempts beyond ADMIN_LOGIN_RATE of this user or this address."""
    rate = settings.ADMIN_LOGIN_RATE
    brake.count_attempt(request, group="admin-code", rate=rate)
    brake.count_attempt(request, group="admin-code-user", rate=rate, key="user")


def _count_password(request: HttpRequest) -> None:
    """Count an attempt together with those of the password change. Raises brake.TooManyAttempts."""
    brake.count_attempt(request, group="admin-password", rate=settings.ADMIN_LOGIN_RATE, key="user")


def _log_refused(request: HttpRequest) -> None:
    login_log.log_second_factor(request, "second factor refused", level=logging.WARNING)


def _start_verified_session(request: HttpRequest, device: Device) -> None:
    """Under a new session key: one that was known before must not become a verified one."""
    request.session.cycle_key()
    django_otp.login(request, device)
    login_log.log_second_factor(request, "second factor accepted")


def _record(request: HttpRequest, sentence: str) -> None:
    LogEntry.objects.log_actions(_user(request).pk, [_user(request)], CHANGE, sentence, single_object=True)


def _signed(request: HttpRequest, key: str) -> str:
    """For the page's form: reading the page stores nothing, so its answer brings the key back."""
    return signing.dumps([_user(request).pk, key], salt=__name__)


def _signed_key(request: HttpRequest) -> str | None:
    """The key that the page has shown; None where this user was not given it, or too long ago."""
    try:
        user_id, key = signing.loads(request.POST.get("secret", ""), salt=__name__, max_age=_SET_UP_WITHIN_S)
    except signing.BadSignature:
        return None
    return key if user_id == _user(request).pk else None


def _shown(request: HttpRequest, key: str) -> dict[str, str]:
    """The key as a QR code (an SVG image in a data: address) and in base 32, to be scanned or typed."""
    import segno

    typed = b32encode(bytes.fromhex(key)).decode()
    url = second_factor.unsaved_device(_user(request), key).config_url
    return {
        "qr_code": segno.make(url, micro=False).svg_data_uri(scale=4, border=4, light="white"),
        "typed": " ".join(typed[start : start + 4] for start in range(0, len(typed), 4)),
    }
