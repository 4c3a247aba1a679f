"""The page on which an invited person sets a password."""

import logging
from typing import Any

from django.contrib import admin
from django.contrib.auth.forms import SetPasswordForm
from django.contrib.auth.views import PasswordResetConfirmView
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import reverse_lazy
from unfold.widgets import UnfoldAdminPasswordWidget

from console import invitations, login_limits, login_log


class NewPasswordForm(SetPasswordForm):
    """Django's, with unfold's widgets."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.widget = UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"})

    def save(self, commit: bool = True) -> Any:
        """Raises invitations.NotPending if the link has become invalid since the form was shown."""
        invitations.accept(self.user, self.cleaned_data["new_password1"])
        return self.user


class InvitationView(PasswordResetConfirmView):
    """Django's page of a password reset, for the link of an invitation. It keeps the token of the link in the session,
    shows the form at a URL without it, and logs the user in, who then sets up two-factor authentication."""

    form_class = NewPasswordForm
    token_generator = invitations.links
    post_reset_login = True
    success_url = reverse_lazy("admin:second_factor_set_up")

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        login_limits.count_link(request)
        response = super().dispatch(request, *args, **kwargs)
        if not self.validlink:
            # No request names this URL, which has a token, as its Referer. A page with a form cannot have this header:
            # browsers then send `Origin: null`, which Django's CSRF check refuses.
            response.headers["Referrer-Policy"] = "no-referrer"
        return response

    def form_valid(self, form: Any) -> HttpResponse:
        try:
            response = super().form_valid(form)
        except invitations.NotPending:
            self.validlink = False
            return self.render_to_response(self.get_context_data())
        login_log.log_event(self.request, "invitation accepted", self.user)
        return response

    def render_to_response(self, context: dict[str, Any], **kwargs: Any) -> HttpResponse:
        """The form, or why it is not shown."""
        title, status = ("Set your password", 200) if self.validlink else ("This link does not work", 404)
        if not self.validlink:
            login_log.log_event(self.request, "invitation refused", level=logging.WARNING)
        context |= {**admin.site.each_context(self.request), "title": title, "invited": self.user}
        return TemplateResponse(self.request, "admin/invitation.html", context, status=status)
