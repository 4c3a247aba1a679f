"""Operators, their roles, and the history of what they did, in the console."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.admin.models import LogEntry
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import URLPattern, path, reverse
from django_otp.plugins.otp_static.admin import StaticDevice
from django_otp.plugins.otp_totp.admin import TOTPDevice
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from accounts.admin.base import LongListAdmin, ReadOnlyAdmin, link
from accounts.history import Action
from callerid_project import login_log, second_factor

#: Permissions that Django makes and that let nobody do anything here.
_WITHOUT_EFFECT = (
    r"^(add|change|delete)_(creditentry|usage|logentry|user|group)$|^(add|delete)_notice$|^delete_apitoken$"
)

_DID: dict[int, str] = {
    Action.ADDITION: "added",
    Action.CHANGE: "changed",
    Action.DELETION: "deleted",
    Action.EXPORT: "exported",
    Action.IMPORT: "imported",
    Action.LOGIN: "logged in",
}

# Django's pages are replaced below. django-otp's would show secrets: a second factor is its user's alone.
admin.site.unregister([Group, User, StaticDevice, TOTPDevice])


class SuperusersAdmin(LongListAdmin):
    """Whoever could change users or roles could make himself a superuser, so no permission is enough for it."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.is_superuser

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.is_superuser

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.is_superuser

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """With a box to tick for each: one click too many in a list would take all others away."""
        kwargs.setdefault("widget", UnfoldAdminCheckboxSelectMultipleWidget())
        return super().formfield_for_manytomany(db_field, request, **kwargs)


@admin.register(User)
class UserAdmin(DjangoUserAdmin, SuperusersAdmin):
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
        ("What they may do", {"fields": ("is_active", "is_staff", "is_superuser", "groups")}),
        ("Important dates", {"fields": ("last_login", "date_joined")}),
    )
    add_fieldsets = (
        (None, {"fields": ("username", "password1", "password2")}),
        ("What they may do", {"fields": ("is_staff", "is_superuser", "groups")}),
    )

    @admin.display(description="roles")
    def roles(self, user: User) -> str:
        return ", ".join(group.name for group in user.groups.all()) or "-"

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        device = TOTPDevice.objects.filter(user=OuterRef("pk"), confirmed=True)
        return super().get_queryset(request).prefetch_related("groups").annotate(has_device=Exists(device))

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> tuple[str, ...]:
        """A name stands in the ledger, and a supporter's daily limit is counted by it."""
        return ("username", *self.readonly_fields) if obj else self.readonly_fields

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        words = {"label": "Roles", "help_text": "Whoever has several may do what any of them may."}
        return super().formfield_for_manytomany(db_field, request, **words, **kwargs)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Users are made inactive, never deleted: the history of what they did would go with them."""
        return False

    # --- The second factor ---------------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.reset_second_factor_view)
        name = "auth_user_reset_second_factor"
        return [path("<int:user_id>/reset-second-factor/", view, name=name), *super().get_urls()]

    def may_reset_second_factor(self, request: HttpRequest, user: User) -> bool:
        """Not their own: that takes a password or a code (second_factor_pages)."""
        return self.has_change_permission(request, user) and user.pk != request.user.pk

    def reset_second_factor_view(self, request: HttpRequest, user_id: int) -> HttpResponse:
        user = get_object_or_404(User, pk=user_id)
        if not self.may_reset_second_factor(request, user):
            raise PermissionDenied
        if request.method != "POST":
            return self.page(
                request,
                "reset_second_factor.html",
                title="Reset the second factor",
                original=user,
                required=settings.REQUIRE_2FA,
            )
        with transaction.atomic():
            removed = second_factor.remove(user)
            if removed:
                self.log_change(request, user, "Reset the second factor.")
        if removed:
            login_log.log_second_factor_reset(request, user)
            self.message_user(request, f"The second factor of {user} was reset.", messages.SUCCESS)
        else:
            self.message_user(request, f"{user} has no second factor.", messages.WARNING)
        return redirect("admin:auth_user_change", user.pk)

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        user = kwargs.get("obj")
        if user is not None and self.may_reset_second_factor(request, user) and second_factor.is_set_up(user):
            context["reset_url"] = reverse("admin:auth_user_reset_second_factor", args=[user.pk])
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description="second factor", boolean=True)
    def has_second_factor(self, user: Any) -> bool:
        return bool(user.has_device)

    def save_related(self, request: HttpRequest, form: forms.ModelForm, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        user = form.instance
        allowed = user.is_superuser or user.groups.exists() or user.user_permissions.exists()
        if user.is_active and user.is_staff and not allowed:
            sentence = f"{user.username} has no role: they can log in, but see and do nothing until you give them one."
            self.message_user(request, sentence, messages.WARNING)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"is_staff": True, **super().get_changeform_initial_data(request)}


class PermissionsField(forms.ModelMultipleChoiceField):
    def label_from_instance(self, obj: Any) -> str:
        """Without its app and model, which its name says again."""
        return str(obj.name)


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin, SuperusersAdmin):
    filter_horizontal = ()

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest | None = None, **kwargs: Any) -> Any:
        """Of what has pages here: the other permissions let nobody do anything."""
        shown = ContentType.objects.get_for_models(*self.admin_site._registry).values()
        kwargs["queryset"] = Permission.objects.filter(content_type__in=shown).exclude(codename__regex=_WITHOUT_EFFECT)
        kwargs["form_class"] = PermissionsField
        return super().formfield_for_manytomany(db_field, request, **kwargs)


@admin.register(LogEntry)
class HistoryAdmin(ReadOnlyAdmin, LongListAdmin):
    list_display = ("when", "user", "did", "what", "why")
    fields = ("when", "user", "did", "kind_of_object", "what", "why")
    list_select_related = ("user", "content_type")
    sortable_by = ("when",)
    search_fields = ("user",)
    search_help_text = "A part of the name of who did it."
    ordering = ("-pk",)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().changelist_view(request, {"title": "History", **(extra_context or {})})

    def get_search_results(self, request: HttpRequest, queryset: QuerySet, search_term: str) -> tuple[QuerySet, bool]:
        """Users are found first, for they are few: then the index by user has their rows."""
        if term := search_term.strip():
            users = User.objects.filter(username__icontains=term).values_list("pk", flat=True)
            queryset = queryset.filter(user__in=list(users))
        return queryset, False

    @admin.display(description="when (UTC)", ordering="pk")
    def when(self, entry: LogEntry) -> str:
        return f"{entry.action_time:%Y-%m-%d %H:%M:%S}"

    @admin.display(description="action")
    def did(self, entry: LogEntry) -> str:
        return _DID.get(entry.action_flag, "-")

    @admin.display(description="kind")
    def kind_of_object(self, entry: LogEntry) -> str:
        return entry.content_type.name if entry.content_type else "-"

    @admin.display(description="object")
    def what(self, entry: LogEntry) -> str:
        url = None if entry.is_deletion() else entry.get_admin_url()
        name = f"{entry.content_type.name} {entry.object_repr}" if entry.content_type else entry.object_repr
        # Deleted, forgotten, or a number where its sealed address should be (lookup.sealing): no address has a number.
        number = entry.content_type and entry.content_type.model in ("contact", "numberrule")
        if not url or not entry.object_id or (number and entry.object_id.isdigit()):
            return name
        return link(url, name)

    @admin.display(description="what was done, and why")
    def why(self, entry: LogEntry) -> str:
        return entry.get_change_message() or "-"
