"""Forms of saved objects that several people may edit at once: a page changes only what was changed on it."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model
from django.forms.boundfield import BoundField
from django.http import QueryDict
from unfold.forms import PaginationInlineFormSet

from core import periods

#: What Django's History entries have of deleted rows.
DELETED = '"deleted"'


class EditForm(forms.BaseModelForm):
    """Each field has a hidden input with the value that the page has shown (Django's `show_hidden_initial`). What the
    page has not changed gets the value of the row. What the page and somebody else have changed to different values is
    an error, whose page has the new value in the hidden input: the next submission replaces it.

    `history_of`: the object whose History has the changes, unless it is that of the form.
    """

    data: QueryDict

    def __init__(self, *args: Any, history_of: Model | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.history_of = history_of or self.instance
        #: Names of the fields that were changed on the page, and of those that others changed since: kept, or replaced
        #: by this submission if that is confirmed.
        self.changed_here: list[str] = []
        self.kept: list[str] = []
        self.conflicts: dict[str, str] = {}
        if self.instance.pk is None:
            return
        for field in self.fields.values():  # a disabled field is no input, and may be a secret
            field.show_hidden_initial = not field.disabled and not field.widget.is_hidden
        if self.is_bound:
            self.data = self.data.copy()
            if not any(self[name].html_initial_name in self.data for name in self.fields):
                for name in self.fields:  # a page of an earlier version
                    self.data.setlist(self[name].html_initial_name, _values(self[name]))
            self.changed_here = self.changed_data
            self._merge()
            del self.changed_data  # Django's, which compares with the row from here on

    def _merge(self) -> None:
        for name, field in self.fields.items():
            bound = self[name]
            shown, now = self.data.getlist(bound.html_initial_name), _values(bound)
            is_set = isinstance(field, forms.ModelMultipleChoiceField)
            if not field.show_hidden_initial or _lines(shown) == _lines(now):
                continue
            if not field.has_changed(bound.initial, shown if is_set else next(iter(shown), "")):
                continue
            if name not in self.changed_here:
                self.kept.append(name)
                self.data.setlist(bound.html_name, now)
            elif is_set:
                chosen = self.data.getlist(bound.html_name)
                added, removed = set(chosen) - set(shown), set(shown) - set(chosen)
                self.kept.append(name)
                self.data.setlist(bound.html_name, [*(set(now) - removed | added)])
            elif field.has_changed(bound.initial, bound.data):
                self.conflicts[name] = _text(bound)
            self.data.setlist(bound.html_initial_name, now)

    def clean(self) -> Any:
        data = super().clean()
        for name, text in self.conflicts.items():
            done = self._done(name, f'changed this to "{text}"' if text else "cleared this")
            self.add_error(name, f"{done}, after you opened this page. Save again to replace it.")
        return data

    def notes(self) -> list[str]:
        """About changes that were kept. Without values, which messages must not store."""
        changes = (self._done(name, f'changed "{self[name].label}"') for name in self.kept)
        return [f"{change}, after you opened the page. That was kept." for change in changes]

    def _done(self, name: str, verb: str) -> str:
        return done(self.history_of, f'"{self[name].label}', verb)


class EditFormSet(PaginationInlineFormSet):
    """Rows that others have deleted since the page was opened are left out; one that was changed on the page becomes a
    new row, if that is confirmed."""

    data: QueryDict

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.first_restored = self.deleted = 0
        if self.is_bound and self.management_form.is_valid():
            self._leave_out_deleted()

    def get_form_kwargs(self, index: int | None) -> dict[str, Any]:
        return {**super().get_form_kwargs(index), "history_of": self.instance}

    def _leave_out_deleted(self) -> None:
        count, total = self.initial_form_count(), self.total_form_count()
        key, existing = self.model._meta.pk.name, {str(row.pk) for row in self.get_queryset()}
        gone = [n for n in range(count) if self.data.get(f"{self.prefix}-{n}-{key}") not in existing]
        if not gone:
            self.first_restored = total
            return
        restored = [n for n in gone if self._is_changed(n)]
        order = [*(n for n in range(total) if n not in gone), *restored]
        data = self.data.copy()
        for prefix in (f"{self.prefix}-", f"initial-{self.prefix}-"):
            for name in [name for name in data if name.startswith(prefix) and name[len(prefix) :][:1].isdigit()]:
                del data[name]
            for place, n in enumerate(order):
                for name in [name for name in self.data if name.startswith(f"{prefix}{n}-")]:
                    if n not in gone or not (prefix.startswith("initial-") or name == f"{prefix}{n}-{key}"):
                        data.setlist(f"{prefix}{place}-{name[len(f'{prefix}{n}-') :]}", self.data.getlist(name))
        data[f"{self.prefix}-INITIAL_FORMS"] = str(count - len(gone))
        data[f"{self.prefix}-TOTAL_FORMS"] = str(len(order))
        self.data, self.first_restored = data, len(order) - len(restored)
        self.deleted = len(gone) - len(restored)
        del self.management_form

    def _is_changed(self, n: int) -> bool:
        if self.data.get(f"{self.prefix}-{n}-DELETE"):
            return False
        instance, prefix = self.model(pk=0), self.add_prefix(n)
        return bool(self.form(self.data, prefix=prefix, instance=instance, **self.get_form_kwargs(n)).changed_here)

    def clean(self) -> None:
        super().clean()
        for form in self.forms[self.first_restored :]:
            text = "after you opened this page. Save again to add it as a new one, or remove it."
            form.add_error(None, f"{done(self.instance, DELETED, 'deleted this')}, {text}")

    def notes(self) -> list[str]:
        found = [note for form in self.forms for note in form.notes()]
        verb = f"deleted a {self.model._meta.verbose_name}"
        return [*found, *[f"{done(self.instance, DELETED, verb)}, after you opened the page."] * bool(self.deleted)]


def done(obj: Model, text: str, verb: str) -> str:
    """Who did what to `obj`, and when, by its newest History entry that has `text`: `alice changed this at TIME`."""
    entries = LogEntry.objects.filter(
        content_type=ContentType.objects.get_for_model(obj), object_id=obj.pk, change_message__contains=text
    )
    entry = entries.select_related("user").order_by("-pk").first()
    return f"{entry.user} {verb} at {periods.shown(entry.action_time)}" if entry else f"Somebody {verb}"


def _values(bound: BoundField) -> list[str]:
    """What the hidden input has on a page that is opened now."""
    value = bound.field.prepare_value(bound.initial)
    values = value if isinstance(value, list | tuple) else [value]
    return ["" if each is None else str(each) for each in values]


def _lines(values: Sequence[str]) -> list[str]:
    """In any order, and without the line ends of browsers."""
    return sorted("\n".join(value.splitlines()) for value in values)


def _text(bound: BoundField) -> str:
    """The value of the row as the field shows it; empty for none."""
    widget, value = bound.field.widget, bound.field.prepare_value(bound.initial)
    if choices := getattr(widget, "choices", None):
        chosen = widget.format_value(value)
        chosen = [chosen] if isinstance(chosen, str) else chosen
        labels = {str(key): str(label) for key, label in choices}
        return ", ".join(labels.get(str(each), str(each)) for each in chosen if each)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def for_edits(form: type[forms.ModelForm]) -> type[forms.ModelForm]:
    """`form` as an EditForm."""
    metaclass: Any = type(form)
    edit_form: type[forms.ModelForm] = metaclass(form.__name__, (EditForm, form), {})
    return edit_form
