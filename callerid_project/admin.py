"""Operators, their roles, and the history of what they did, in the console."""

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from accounts.admin.base import LongListAdmin, ReadOnlyAdmin, link

#: Permissions that Django makes and that let nobody do anything here.
_WITHOUT_EFFECT = (
    r"^(add|change|delete)_(creditentry|usage|logentry|user|group)$|^(add|delete)_notice$|^delete_apitoken$"
)

admin.site.unregister([Group, User])


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
    list_display = ("username", "roles", "is_staff", "is_superuser", "is_active", "last_login")
    sortable_by = ("username", "is_staff", "is_superuser", "is_active", "last_login")
    lookups_allowed = (
        *("is_staff__exact", "is_superuser__exact", "is_active__exact"),
        *("groups__id__exact", "groups__isnull"),
    )
    readonly_fields = ("last_login", "date_joined")
    filter_horizontal = ()
    fieldsets = (
        (None, {"fields": ("username", "password")}),
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
        return super().get_queryset(request).prefetch_related("groups")

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> tuple[str, ...]:
        """A name stands in the ledger, and a supporter's daily limit is counted by it."""
        return ("username", *self.readonly_fields) if obj else self.readonly_fields

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        words = {"label": "Roles", "help_text": "Whoever has several may do what any of them may."}
        return super().formfield_for_manytomany(db_field, request, **words, **kwargs)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Users are made inactive, never deleted: the history of what they did would go with them."""
        return False

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
        return {1: "added", 2: "changed", 3: "deleted"}.get(entry.action_flag, "-")

    @admin.display(description="kind")
    def kind_of_object(self, entry: LogEntry) -> str:
        return entry.content_type.name if entry.content_type else "-"

    @admin.display(description="object")
    def what(self, entry: LogEntry) -> str:
        url = None if entry.is_deletion() else entry.get_admin_url()
        name = f"{self.kind_of_object(entry)} {entry.object_repr}"
        # Deleted, forgotten, or a number where its sealed address should be (lookup.sealing): no address has a number.
        number = entry.content_type and entry.content_type.model in ("contact", "numberrule")
        if not url or not entry.object_id or (number and entry.object_id.isdigit()):
            return name
        return link(url, name)

    @admin.display(description="what was done, and why")
    def why(self, entry: LogEntry) -> str:
        return entry.get_change_message() or "-"
