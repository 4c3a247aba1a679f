"""Forms of saved objects that several people may edit at once: a page changes only what was changed on it."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django import forms
from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import ValidationError
from django.db.models import Model
from django.forms.boundfield import BoundField
from django.http import QueryDict
from unfold.forms import PaginationInlineFormSet

from core import periods

#: The hidden input with the time at which the page was opened (opened_at.html).
OPENED_AT = "opened_at"
#: How many of the newest History entries are searched for a change.
MAX_ENTRIES = 100


class EditForm(forms.BaseModelForm):
    """Each field has a hidden input with the value that the page has shown (Django's `show_hidden_initial`). What the
    page has not changed gets the value of the row. What the page and somebody else have changed to different values is
    an error, whose page has the new value in the hidden input: the next submission replaces it.

    `parent`: the object whose History has the changes, unless it is that of the form.
    """

    data: QueryDict

    def __init__(self, *args: Any, parent: Model | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.parent = parent
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
            change = self._change_text(name, f'changed this to "{text}"' if text else "cleared this")
            self.add_error(name, f"{change}, after you opened this page. Save again to replace it.")
        return data

    def notes(self) -> list[str]:
        """About changes that were kept. Without values, which messages must not store."""
        changes = (self._change_text(name, f'changed "{self[name].label}"') for name in self.kept)
        return [f"{change}, after you opened the page. That was kept." for change in changes]

    def _change_text(self, name: str, verb: str) -> str:
        label, row = str(self[name].label), str(self.instance) if self.parent else ""

        def has_changed(entry: LogEntry) -> bool:
            fields = [text for part in _parts(entry, "changed", row) for text in part.get("fields", ())]
            return any(text == label or text.startswith(f"{label} from ") for text in fields)

        return last_change_text(self.parent or self.instance, verb, self.data, has_changed)


class EditFormSet(PaginationInlineFormSet):
    """Rows that others have deleted since the page was opened are left out; one that was changed on the page becomes a
    new row, if that is confirmed."""

    data: QueryDict

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.first_restored = 0
        #: The names that the rows had in the History: those deleted by others, and of these the ones to add again.
        self.deleted: list[str] = []
        self.restored: list[str] = []
        if self.is_bound and self.management_form.is_valid():
            self._leave_out_deleted()

    def get_form_kwargs(self, index: int | None) -> dict[str, Any]:
        return {**super().get_form_kwargs(index), "parent": self.instance}

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
        names = {n: str(self.model(pk=self.data.get(f"{self.prefix}-{n}-{key}"))) for n in gone}
        self.data, self.first_restored = data, len(order) - len(restored)
        self.restored = [names.pop(n) for n in restored]
        self.deleted = [*names.values()]
        del self.management_form

    def _is_changed(self, n: int) -> bool:
        if self.data.get(f"{self.prefix}-{n}-DELETE"):
            return False
        instance, prefix = self.model(pk=0), self.add_prefix(n)
        return bool(self.form(self.data, prefix=prefix, instance=instance, **self.get_form_kwargs(n)).changed_here)

    def clean(self) -> None:
        super().clean()
        for form, row in zip(self.forms[self.first_restored :], self.restored, strict=False):
            text = "after you opened this page. Save again to add it as a new one, or remove it."
            form.add_error(None, f"{self._deletion_text(row, 'deleted this')}, {text}")

    def notes(self) -> list[str]:
        found = [note for form in self.forms for note in form.notes()]
        verb = f"deleted a {self.model._meta.verbose_name}"
        deletions = dict.fromkeys(self._deletion_text(row, verb) for row in self.deleted)
        return [*found, *[f"{deletion}, after you opened the page." for deletion in deletions]]

    def _deletion_text(self, row: str, verb: str) -> str:
        return last_change_text(self.instance, verb, self.data, lambda entry: bool(_parts(entry, "deleted", row)))

    def save_existing(self, form: Any, obj: Model, commit: bool = True) -> Any:
        """Save the changed fields only."""
        obj.save(update_fields=form.changed_data)
        return obj

    def delete_existing(self, obj: Model, commit: bool = True) -> None:
        """Keeps the id, by which the History names the row."""
        pk = obj.pk
        super().delete_existing(obj, commit)
        obj.pk = pk


def last_change_text(obj: Model, verb: str, data: Mapping[str, Any], has_change: Callable[[LogEntry], bool]) -> str:
    """Who did what to `obj`, and when: `alice changed this at TIME`.

    By the newest History entry that `has_change`, made after the page was opened whose form has this `data`; `Somebody`
    without one, as after a command.
    """
    if batch := getattr(obj, "import_batch", None):  # the last to write the row: a save here clears it
        return f"Import {batch} {verb}"
    try:
        opened_at = forms.DateTimeField().clean(data.get(OPENED_AT))
    except ValidationError:  # a page of an earlier version
        return f"Somebody {verb}"
    entries = LogEntry.objects.filter(
        content_type=ContentType.objects.get_for_model(obj), object_id=obj.pk, action_time__gte=opened_at
    )
    newest = entries.select_related("user").order_by("-pk")[:MAX_ENTRIES]
    entry = next(filter(has_change, newest), None)
    return f"{entry.user} {verb} at {periods.shown(entry.action_time)}" if entry else f"Somebody {verb}"


def _parts(entry: LogEntry, action: str, row: str) -> list[dict[str, Any]]:
    """What the entry says was `changed` or `deleted`, of this row; "" for the object itself."""
    try:
        parts = json.loads(entry.change_message)
    except ValueError:  # text
        return []
    found = [part[action] for part in parts if action in part] if isinstance(parts, list) else []
    return [each for each in found if each.get("object", "") == row]


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
