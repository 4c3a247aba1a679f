"""The console's pages of users, invitations and roles (Django's groups)."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar, cast

from django import forms
from django.apps import apps
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.cache import add_never_cache_headers
from django_otp.plugins.otp_static.admin import StaticDevice
from django_otp.plugins.otp_totp.admin import TOTPDevice
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminEmailInputWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

from accounts.admin.base import TokenSearchAdmin
from callerid_project.console import invitations, login_log, second_factor
from callerid_project.models import Invitation
from core.admin import column, require

# Titles, messages and breadcrumbs use the names of the sidebar.
apps.get_app_config("auth").verbose_name = "Operators"
Group._meta.verbose_name, Group._meta.verbose_name_plural = "role", "roles"

#: Permissions that Django creates and that have no effect here: these pages are read-only or for superusers.
_WITHOUT_EFFECT = (
    r"^(add|change|delete)_(creditentry|usage|logentry|user|group)$|^(add|delete)_notice$|^delete_apitoken$"
)

# Django's pages are replaced below. django-otp's pages would show the secrets of other users.
admin.site.unregister([Group, User, StaticDevice, TOTPDevice])


class SuperuserOnlyAdmin(TokenSearchAdmin):
    """Only superusers can make changes: a permission to change users or roles would allow its holder to become one."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.is_superuser

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.is_superuser

    has_delete_permission = has_change_permission

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Use checkboxes: in a multiple select, one click without Ctrl deselects everything else."""
        kwargs.setdefault("widget", UnfoldAdminCheckboxSelectMultipleWidget())
        return super().formfield_for_manytomany(db_field, request, **kwargs)


#: As in docs/roles.md.
ROLES_HELP = (
    "viewer: views customers, tokens and sources. support: also the ledger; tops up and refunds up to a limit. "
    "operator: also issues tokens and edits numbers. auditor: views everything and exports the ledger. Roles add up."
)


class InvitationForm(forms.ModelForm):
    """A user to invite. Rules of names and e-mail addresses are the model's."""

    email = forms.EmailField(
        label="E-mail address",
        max_length=254,
        widget=UnfoldAdminEmailInputWidget(attrs={"autocomplete": "off"}),
        help_text="The link to set a password is sent to this address.",
    )
    groups = forms.ModelMultipleChoiceField(
        Group.objects.order_by("name"),
        label="Roles",
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget(),
        help_text=ROLES_HELP,
    )

    class Meta:
        model = User
        fields = ("username", "email", "groups", "is_superuser")
        widgets: ClassVar = {
            "username": UnfoldAdminTextInputWidget(attrs={"autocomplete": "off", "autocapitalize": "none"}),
            "is_superuser": UnfoldBooleanWidget(),
        }

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if not self.errors and not data["groups"] and not data["is_superuser"]:
            self.add_error("groups", "Select at least one role, or superuser status.")
        return data


@admin.register(User)
class UserAdmin(DjangoUserAdmin, SuperuserOnlyAdmin):
    form = UserChangeForm
    add_form = UserCreationForm
    add_form_template = None
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "roles", "is_staff", "is_superuser", "is_active", "has_second_factor", "last_login")
    sortable_by = ("username", "is_staff", "is_superuser", "is_active", "last_login")
    lookups_allowed = (
        *("is_staff__exact", "is_superuser__exact", "is_active__exact"),
        *("groups__id__exact", "groups__isnull"),
    )
    readonly_fields = ("has_second_factor", "last_login", "date_joined")
    filter_horizontal = ()
    fieldsets = (
        (None, {"fields": ("username", "password", "has_second_factor")}),
        ("Personal info", {"fields": ("first_name", "last_name", "email")}),
        ("Permissions", {"fields": ("is_active", "is_staff", "is_superuser", "groups")}),
        ("Important dates", {"fields": ("last_login", "date_joined")}),
    )
    add_fieldsets = (
        (None, {"fields": ("username", "password1", "password2")}),
        ("Permissions", {"fields": ("is_staff", "is_superuser", "groups")}),
    )

    roles = column(lambda user: ", ".join(group.name for group in user.groups.all()) or "-", "roles")

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        device = TOTPDevice.objects.filter(user=OuterRef("pk"), confirmed=True)
        return super().get_queryset(request).prefetch_related("groups").annotate(has_device=Exists(device))

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> tuple[str, ...]:
        """User names are in the ledger, and the daily limit of support users is counted by name."""
        return ("username", *self.readonly_fields) if obj else self.readonly_fields

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        texts = {"label": "Roles", "help_text": ROLES_HELP}
        return super().formfield_for_manytomany(db_field, request, **texts, **kwargs)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Users are deactivated, never deleted: their history entries would be deleted with them."""
        return False

    # --- Invitations ---------------------------------------------------------------------------------------------

    def invitations_view(self, request: HttpRequest) -> HttpResponse:
        """Invitations whose users have not set a password."""
        require(self.has_view_permission(request))
        now = timezone.now()
        listed = [
            {
                "user": invitation.user,
                "by": invitation.invited_by,
                "roles": ", ".join(group.name for group in invitation.user.groups.all())
                or ("superuser" if invitation.user.is_superuser else "-"),
                "sent_at": invitation.sent_at,
                "state": invitations.state(invitation, now),
                "expires_at": invitations.expires_at(invitation),
            }
            for invitation in invitations.pending()[: invitations.MAX_LISTED]
        ]
        context = {"listed": listed, "may_invite": self.has_add_permission(request), "title": "Invitations"}
        return self._invitation_page(request, "invitations", **context)

    def invite_view(self, request: HttpRequest) -> HttpResponse:
        require(self.has_add_permission(request))
        form = InvitationForm(request.POST if request.method == "POST" else None)
        if form.is_bound and form.is_valid():
            data = {**form.cleaned_data, "groups": list(form.cleaned_data["groups"])}
            try:
                invitation = invitations.invite(**data, by=cast(User, request.user))
            except IntegrityError:  # another request has just taken the name
                form.add_error("username", "A user with that username already exists.")
            else:
                return self._deliver(request, invitation)
        return self._invitation_page(request, "invite", title="Invite a user", form=form)

    def invite_again_view(self, request: HttpRequest, user_id: int) -> HttpResponse:
        require(self.has_add_permission(request))
        user = self._pending_user(user_id)
        if request.method == "POST":
            try:
                return self._deliver(request, invitations.renew(user, by=cast(User, request.user)))
            except invitations.NotPending as error:
                raise Http404 from error
        return self._invitation_page(request, "invite_again", title="Send a new invitation", original=user)

    def withdraw_invitation_view(self, request: HttpRequest, user_id: int) -> HttpResponse:
        require(self.has_add_permission(request))
        user = self._pending_user(user_id)
        if request.method != "POST":
            return self._invitation_page(request, "withdraw_invitation", title="Withdraw the invitation", original=user)
        try:
            invitations.withdraw(user, by=cast(User, request.user))
        except invitations.NotPending as error:
            raise Http404 from error
        self.message_user(request, f"The invitation of {user} was withdrawn.", messages.SUCCESS)
        return redirect("admin:auth_user_invitations")

    def _pending_user(self, user_id: int) -> User:
        return get_object_or_404(invitations.pending(), pk=user_id).user

    def _deliver(self, request: HttpRequest, invitation: Invitation) -> HttpResponse:
        """Send the link. If that is not possible, show it once, on this page: messages would be stored."""
        url = invitations.link(invitation, f"{request.scheme}://{request.get_host()}")
        if settings.EMAIL_IS_CONFIGURED:
            with suppress(invitations.NotSent):
                invitations.send(invitation, url)
                message = f"The invitation was sent to {invitation.user.email}."
                self.message_user(request, message, messages.SUCCESS)
                return redirect("admin:auth_user_invitations")
        response = self._invitation_page(
            request,
            "invitation_link",
            title="Hand over this link",
            original=invitation.user,
            url=url,
            expires_at=invitations.expires_at(invitation),
        )
        add_never_cache_headers(response)
        return response

    def _invitation_page(self, request: HttpRequest, template: str, **context: Any) -> HttpResponse:
        context |= {"email_is_configured": settings.EMAIL_IS_CONFIGURED, "days": settings.INVITATION_DAYS}
        return self.render_page(request, f"{template}.html", **context)

    # --- Two-factor authentication -------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        pages: dict[str, tuple[str, Callable[..., HttpResponse]]] = {
            "invitations/": ("invitations", self.invitations_view),
            "invite/": ("invite", self.invite_view),
            "<int:user_id>/invite-again/": ("invite_again", self.invite_again_view),
            "<int:user_id>/withdraw-invitation/": ("withdraw_invitation", self.withdraw_invitation_view),
            "<int:user_id>/reset-second-factor/": ("reset_second_factor", self.reset_second_factor_view),
        }
        view = self.admin_site.admin_view
        own = [path(at, view(page), name=f"auth_user_{name}") for at, (name, page) in pages.items()]
        return [*own, *super().get_urls()]

    def can_reset_second_factor(self, request: HttpRequest, user: User) -> bool:
        """Whether the page is offered: not for users themselves, who need a password or a code (console.site)."""
        return self.has_change_permission(request, user) and user.pk != request.user.pk

    def reset_second_factor_view(self, request: HttpRequest, user_id: int) -> HttpResponse:
        user = get_object_or_404(User, pk=user_id)
        require(self.can_reset_second_factor(request, user))
        if request.method != "POST":
            return self.render_page(
                request,
                "reset_second_factor.html",
                title="Reset two-factor authentication",
                original=user,
                required=second_factor.is_required(user),
            )
        with transaction.atomic():
            removed = second_factor.remove(user)
            if removed:
                self.log_change(request, user, "Reset two-factor authentication.")
        if removed:
            login_log.log_second_factor_reset(request, user)
            self.message_user(request, f"Two-factor authentication of {user} was reset.", messages.SUCCESS)
        else:
            self.message_user(request, f"{user} has no two-factor authentication.", messages.WARNING)
        return redirect("admin:auth_user_change", user.pk)

    def page_context(self, request: HttpRequest, obj: User) -> dict[str, Any]:
        return {
            "may_reset": self.can_reset_second_factor(request, obj) and second_factor.is_set_up(obj),
            "is_invited": not obj.has_usable_password() and Invitation.objects.filter(pk=obj.pk).exists(),
        }

    @admin.display(description="two-factor authentication", boolean=True)
    def has_second_factor(self, user: Any) -> bool:
        return bool(user.has_device)

    def save_related(self, request: HttpRequest, form: forms.ModelForm, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        user = form.instance
        allowed = user.is_superuser or user.groups.exists() or user.user_permissions.exists()
        if user.is_active and user.is_staff and not allowed:
            warning = f"{user.username} has no role: they can log in, but cannot view anything until you assign one."
            self.message_user(request, warning, messages.WARNING)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"is_staff": True, **super().get_changeform_initial_data(request)}


class PermissionsField(forms.ModelMultipleChoiceField):
    def label_from_instance(self, permission: Any) -> str:
        """The permission without app and model, with the names that the console gives to models."""
        model = permission.content_type.model_class()._meta
        action, _, name = permission.codename.partition("_")
        is_default = name == model.model_name and action in model.default_permissions
        return f"Can {action} {model.verbose_name}" if is_default else str(permission.name)


@admin.register(Group)
class RoleAdmin(DjangoGroupAdmin, SuperuserOnlyAdmin):
    filter_horizontal = ()

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest | None = None, **kwargs: Any) -> Any:
        """Offer only permissions on models that have pages: the others have no effect."""
        models = self.admin_site._registry
        shown = ContentType.objects.get_for_models(*models, for_concrete_models=False).values()
        kwargs["queryset"] = Permission.objects.filter(content_type__in=shown).exclude(codename__regex=_WITHOUT_EFFECT)
        kwargs["form_class"] = PermissionsField
        return super().formfield_for_manytomany(db_field, request, **kwargs)
