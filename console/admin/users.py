"""The console's pages of users, invitations and roles (Django's groups)."""

from typing import Any, ClassVar, cast

from django import forms
from django.apps import apps
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.core.exceptions import ValidationError
from django.db import IntegrityError
from django.db.models import Case, Exists, ManyToManyField, OuterRef, Q, QuerySet, When
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.functional import lazy
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django_otp.plugins.otp_static.admin import StaticDevice
from django_otp.plugins.otp_totp.admin import TOTPDevice
from unfold.enums import ActionVariant
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminEmailInputWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

from accounts.admin.base_classes import TokenRefusingAdmin
from console import invitations, login_log, second_factor
from console.models import Invitation
from console.roles import SENTENCES, permissions_by_role
from core.admin import (
    ConditionFilter,
    Secret,
    Unchanged,
    form_action,
    require,
)
from core.cells import column, html_link

# Titles, messages and breadcrumbs use the names of the sidebar.
apps.get_app_config("auth").verbose_name = "Operators"
Group._meta.verbose_name, Group._meta.verbose_name_plural = "role", "roles"

#: Labels and help of Django's fields, in the console's words.
_LABELS = {"email": "E-mail address", "is_staff": "Can log in to the console", "is_superuser": "Superuser"}
_HELP = {
    "username": "At most 150 letters, digits and @ . + - _",
    "is_active": "Turn off instead of deleting the user.",
    "is_staff": "",
    "is_superuser": "Has all permissions, even without a role.",
}

# Django's pages are replaced below. django-otp's pages would show the secrets of other users.
admin.site.unregister([Group, User, StaticDevice, TOTPDevice])


class SuperuserOnlyAdmin(TokenRefusingAdmin):
    """Only superusers can make changes: a permission to change users or roles would allow its holder to become one."""

    # In a multiple select, one click without Ctrl deselects everything else.
    formfield_overrides: Any = {
        **TokenRefusingAdmin.formfield_overrides,
        ManyToManyField: {"widget": UnfoldAdminCheckboxSelectMultipleWidget},
    }

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.is_superuser

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.is_superuser

    has_delete_permission = has_change_permission


class RolesField(forms.ModelMultipleChoiceField):
    """Roles with what their holders can do, from the one that may do least; then those that operators have made."""

    def __init__(self, **options: Any) -> None:
        order = Case(*(When(name=name, then=place) for place, name in enumerate(SENTENCES)), default=len(SENTENCES))
        own = {
            "queryset": Group.objects.order_by(order, "name"),
            "label": "Roles",
            "help_text": "A user with several roles can do what any of them allows.",
        }
        super().__init__(**{**options, **own})

    def label_from_instance(self, obj: Any) -> str:
        return _with_limit(f"{obj.name}: {SENTENCES[obj.name]}") if obj.name in SENTENCES else str(obj.name)


ADD_HELP = (
    "For a user without an e-mail address: you choose the password and hand it over. Invite all others, so that nobody "
    "but the user ever knows the password."
)


def _email_help() -> str:
    link = html_link(reverse("admin:auth_user_add"), "add them with a password")
    use = "The link to set a password is sent to this address. " if settings.EMAIL_IS_CONFIGURED else ""
    return format_html("{}For a user without one, {}.", use, link)


class InvitationForm(forms.ModelForm):
    """A user to invite. Rules of names and e-mail addresses are the model's."""

    email = forms.EmailField(
        label="E-mail address",
        max_length=254,
        widget=UnfoldAdminEmailInputWidget(attrs={"autocomplete": "off"}),
        help_text=lazy(_email_help, str)(),
    )
    groups = RolesField(required=False, widget=UnfoldAdminCheckboxSelectMultipleWidget())

    class Meta:
        model = User
        fields = ("username", "email", "groups", "is_superuser")
        labels, help_texts = _LABELS, _HELP
        widgets: ClassVar = {
            "username": UnfoldAdminTextInputWidget(attrs={"autocomplete": "off", "autocapitalize": "none"}),
            "is_superuser": UnfoldBooleanWidget(),
        }

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if not self.errors and not data["groups"] and not data["is_superuser"]:
            self.add_error("groups", "Select at least one role, or Superuser.")
        return data


class InvitationFilter(ConditionFilter):
    title = parameter_name = "invitation"

    @property
    def conditions(self) -> dict[str, tuple[str, Q]]:
        return {"pending": ("no password set yet", Q(pk__in=invitations.pending()))}


def _roles(user: User) -> str:
    names = [group.name for group in user.groups.all()]
    return ", ".join([*(["superuser"] if user.is_superuser else []), *names]) or "-"


def _state(user: User) -> str:
    """In the list; with the user's invitation, until it is accepted."""
    if not (user.is_active and user.is_staff):
        return "inactive" if user.is_staff else "may not log in"
    invitation = invitations.described(user)
    return "active" if invitation == "-" else invitation


def _time(value: Any) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S}" if value else "never"


class UserForm(UserChangeForm):
    """unfold's, which would offer to change a password that an invited user has not set yet."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.instance.has_usable_password():
            self.fields["password"].help_text = "Nobody can log in as this user until a password is set."


class OthersPassword:
    """The help of a password that a superuser sets for another user."""

    fields: dict[str, forms.Field]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["password1"]
        text = str(field.help_text).replace("Your password", "The password")
        field.help_text = SafeString(text.replace("your other personal", "the user’s other personal"))


class NewUserForm(OthersPassword, UserCreationForm):
    pass


class OthersPasswordForm(OthersPassword, AdminPasswordChangeForm):
    use_required_attribute = False  # the browser's own message would hide the other errors


@admin.register(User)
class UserAdmin(DjangoUserAdmin, SuperuserOnlyAdmin):
    form = UserForm
    add_form = NewUserForm
    add_form_template = None
    change_password_form = OthersPasswordForm
    list_display = ("username", "email_address", "roles", "state", "has_second_factor", "last_login_time")
    sortable_by = ("username", "email_address", "state", "last_login_time")
    lookups_allowed = (
        *("is_staff__exact", "is_superuser__exact", "is_active__exact"),
        *("groups__id__exact", "groups__isnull", "invitation"),
    )
    list_filter = (*DjangoUserAdmin.list_filter, InvitationFilter)
    list_before_template = "admin/parts/action_buttons.html"
    show_add_link = False  # the page of an invitation links the page that adds a user with a password
    actions_list = ("invite",)
    actions_detail = ("invite_again", "withdraw_invitation", "reset_second_factor")
    readonly_fields = ("has_second_factor", "invitation_state", "last_login_time", "joined")
    filter_horizontal = ()
    history_fields = ("is_active", "is_staff", "is_superuser", "groups")
    fieldsets = (
        (None, {"fields": ("username", "password", "has_second_factor", "invitation_state")}),
        ("Personal info", {"fields": ("first_name", "last_name", "email")}),
        ("Permissions", {"fields": ("is_active", "is_staff", "is_superuser", "groups")}),
        ("Important dates", {"fields": ("last_login_time", "joined")}),
    )
    add_fieldsets = (
        (None, {"fields": ("username", "password1", "password2"), "description": ADD_HELP}),
        ("Permissions", {"fields": ("is_staff", "is_superuser", "groups")}),
    )

    invitation_state = column(invitations.described, "invitation")
    has_second_factor = column(lambda user: "on" if user.has_device else "not set up", "two-factor authentication")
    email_address = column(lambda user: user.email or "-", "e-mail address", "email")
    roles = column(_roles, "roles")
    state = column(_state, "state", "is_active")
    last_login_time = column(lambda user: _time(user.last_login), "last login (UTC)", "last_login")
    joined = column(lambda user: _time(user.date_joined), "date joined (UTC)")

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        device = TOTPDevice.objects.filter(user=OuterRef("pk"), confirmed=True)
        users = super().get_queryset(request).select_related("invitation").prefetch_related("groups")
        return users.annotate(has_device=Exists(device))

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> tuple[str, ...]:
        """User names are in the ledger, and the daily limit is counted by name."""
        return ("username", *self.readonly_fields) if obj else self.readonly_fields

    def get_form(self, request: HttpRequest, obj: User | None = None, change: bool = False, **kwargs: Any) -> Any:
        help_texts = {**_HELP, "username": ""} if obj else _HELP
        return super().get_form(request, obj, change=change, labels=_LABELS, help_texts=help_texts, **kwargs)

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """As Django's, without links to pages of roles."""
        field: Any = super().formfield_for_dbfield(db_field, request, **kwargs)
        field.widget = getattr(field.widget, "widget", field.widget)
        return field

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        return super().formfield_for_manytomany(db_field, request, form_class=RolesField, **kwargs)

    def page_context(self, request: HttpRequest, obj: User) -> dict[str, Any]:
        return {**super().page_context(request, obj), "show_save_and_add_another": False}

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Users are deactivated, never deleted: their history entries would be deleted with them."""
        return False

    # --- Invitations ---------------------------------------------------------------------------------------------

    def offers(self, request: HttpRequest, url_path: str, obj: User) -> bool:
        if url_path == "reset-second-factor":
            return second_factor.is_set_up(obj) and obj.pk != request.user.pk
        invitation = invitations.pending().filter(pk=obj.pk).first()
        withdrawn = invitation is None or invitation.sent_at is None
        return invitation is not None and not (withdrawn and url_path == "withdraw-invitation")

    def action_context(self, request: HttpRequest, url_path: str, obj: User | None) -> dict[str, Any]:
        if url_path == "reset-second-factor" and obj is not None:
            require(obj.pk != request.user.pk)  # users themselves need a password or a code (console.site)
            after = (
                "must set it up again at the next login" if second_factor.is_required(obj) else "needs only a password"
            )
            return {"explanation": f"{obj} then {after}."}
        if url_path == "withdraw-invitation":
            return {}
        how = (
            "is sent to the user"
            if settings.EMAIL_IS_CONFIGURED
            else "is shown once, and you hand it over yourself: e-mail is not configured (EMAIL_URL, EMAIL_FROM)"
        )
        days = settings.INVITATION_DAYS
        return {"explanation": f"The link works once, for {days} day{'' if days == 1 else 's'}. It {how}."}

    @form_action(
        "Invite a user",
        "add",
        form=InvitationForm,
        explanation="The user sets a password with the link and must then set up two-factor authentication.",
        variant=ActionVariant.PRIMARY,
        atomic=False,
    )
    def invite(self, request: HttpRequest, obj: None, data: dict[str, Any]) -> HttpResponse:
        try:
            invitation = invitations.invite(**{**data, "groups": list(data["groups"])}, by=cast(User, request.user))
        except IntegrityError as error:  # another request has just taken the name
            raise ValidationError("A user with that username already exists.") from error
        return self._deliver(request, invitation)

    @form_action(
        "Invite again",
        "change",
        explanation="The earlier link stops working. If the user was deactivated, they become active again.",
        atomic=False,
    )
    def invite_again(self, request: HttpRequest, obj: User, data: dict[str, Any]) -> HttpResponse:
        return self._deliver(request, invitations.renew(obj, by=cast(User, request.user)))

    @form_action(
        "Withdraw invitation",
        "change",
        explanation="The link stops working, and the user is deactivated. You can invite them again.",
        variant=ActionVariant.DANGER,
    )
    def withdraw_invitation(self, request: HttpRequest, obj: User, data: dict[str, Any]) -> str:
        invitations.withdraw(obj, by=cast(User, request.user))
        return f"The invitation of {obj} was withdrawn."

    def _deliver(self, request: HttpRequest, invitation: Invitation) -> HttpResponse:
        """Send the link. If that is not possible, show it once."""
        url, user = invitations.link(invitation, f"{request.scheme}://{request.get_host()}"), invitation.user
        if not (problem := invitations.send(invitation, url)):
            self.message_user(request, f"The invitation was sent to {user.email}.", messages.SUCCESS)
            return redirect(self.url_of(user))
        until = f"{invitations.expires_at(invitation):%Y-%m-%d %H:%M} UTC"
        return self.shown_once_page(
            request,
            user,
            Secret("link", "Link to set a password", url, "Copy link"),
            title="Hand over this link",
            warning=f"{problem} Copy this link now and send it to the user yourself: it will not be shown again.",
            note=f"Anyone with the link can use it once, until {until}. Give it to {user} only.",
        )

    # --- Two-factor authentication -------------------------------------------------------------------------------

    @form_action(
        "Reset two-factor authentication",
        "change",
        explanation=(
            "The authenticator app and the recovery codes of this user stop working. Make sure that the user asked for "
            "this, and set a new password if somebody else may know the current one."
        ),
        variant=ActionVariant.DANGER,
    )
    def reset_second_factor(self, request: HttpRequest, obj: User, data: dict[str, Any]) -> str:
        if not second_factor.remove(obj, "Reset two-factor authentication.", by=cast(User, request.user)):
            return Unchanged(f"{obj} has no two-factor authentication.")
        login_log.log_second_factor_reset(request, obj)
        return f"Two-factor authentication of {obj} was reset."

    def save_related(self, request: HttpRequest, form: forms.ModelForm, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        user = form.instance
        allowed = user.is_superuser or user.groups.exists() or user.user_permissions.exists()
        if user.is_active and user.is_staff and not allowed:
            warning = f"{user.username} has no role: they can log in, but cannot view anything until you assign one."
            self.message_user(request, warning, messages.WARNING)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"is_staff": True, **super().get_changeform_initial_data(request)}


@admin.register(Group)
class RoleAdmin(DjangoGroupAdmin, SuperuserOnlyAdmin):
    filter_horizontal = ()
    list_after_save = True
    history_fields = ("name",)
    list_display = ("name", "explanation")
    explanation = column(lambda role: _with_limit(SENTENCES.get(role.name, "-")), "what its users may do")

    def get_fieldsets(self, request: HttpRequest, obj: Group | None = None) -> Any:
        sentence = SENTENCES.get(obj.name, "") if obj else ""
        description = f"A user with this role {_with_limit(sentence)}" if sentence else ""
        return [(None, {"fields": ("name", "permissions"), "description": description})]

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest | None = None, **kwargs: Any) -> Any:
        """Offer only permissions that some role has: the others have no effect."""
        codenames = {name.partition(".")[2] for name in set().union(*permissions_by_role().values())}
        kwargs["queryset"] = Permission.objects.filter(codename__in=codenames)
        field = super().formfield_for_manytomany(db_field, request, **kwargs)
        if isinstance(field, forms.ModelMultipleChoiceField):
            field.label_from_instance = _permission_label  # type: ignore[method-assign, assignment]
        return field


def _with_limit(text: object) -> str:
    """With the value of the setting that limits billing and support users each day."""
    limit = f"{settings.SUPPORT_CREDITS_PER_DAY:,} credits a day"
    shown = str(text).replace("within SUPPORT_CREDITS_PER_DAY", f"up to {limit}")
    return shown.replace("without that limit", f"without the limit of {limit}")


def _permission_label(permission: Any) -> str:
    """Section, object and name, of which Django's own have the name that the object had in a migration."""
    kind = permission.content_type
    action = permission.codename.removesuffix(f"_{kind.model}")
    is_djangos = action in ("add", "change", "delete", "view")
    name = f"Can {action} {kind.name}" if is_djangos else _with_limit(permission.name)
    return f"{kind.app_labeled_name}: {name}"
