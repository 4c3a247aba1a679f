"""Fields of the forms of long lists (core.long_lists)."""

from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.utils import timezone
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

#: As the value of a ZoneField.
UTC_ZONE = ""


def text_field(label: str, placeholder: str, max_length: int) -> forms.CharField:
    widget = UnfoldAdminTextInputWidget(attrs={"placeholder": placeholder, "autocomplete": "off"})
    return forms.CharField(label=label, required=False, max_length=max_length, widget=widget)


def choice_field(label: str, choices: Any) -> forms.ChoiceField:
    """`choices`: as a ChoiceField's, or a function that returns a list."""
    return forms.ChoiceField(
        label=label,
        required=False,
        choices=lambda: [("", "All"), *(choices() if callable(choices) else choices)],
        widget=UnfoldAdminSelectWidget,
        error_messages={"invalid_choice": "Select a value from the list."},
    )


def zone_named(name: str) -> tzinfo | None:
    """The time zone of an IANA name, such as `Europe/Berlin`; None if there is none."""
    try:
        return ZoneInfo(name) if name != UTC_ZONE else UTC
    except (KeyError, ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError; `Europe` is a directory
        return None


class MomentField(forms.DateTimeField):
    """A day, minute or second in `zone`: Django's, as browsers send it. Cleaned to UTC."""

    zone: tzinfo = UTC

    def __init__(self, label: str) -> None:
        widget = UnfoldAdminTextInputWidget(attrs={"type": "datetime-local"})
        messages = {"invalid": "Enter a time as YYYY-MM-DDTHH:MM."}
        super().__init__(label=label, required=False, widget=widget, error_messages=messages)

    def to_python(self, value: Any) -> datetime | None:
        with timezone.override(self.zone):
            moment: datetime | None = super().to_python(value)
        try:
            return moment and moment.astimezone(UTC)
        except OverflowError as error:  # in the first or last hours of the calendar
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid") from error


class _ZoneWidget(UnfoldAdminSelectWidget):
    class Media:
        js = ("callerid/zones.js",)


class ZoneField(forms.CharField):
    """The time zone of the times in a list: UTC, or the browser's, which zones.js offers."""

    def __init__(self) -> None:
        widget = _ZoneWidget(choices=[(UTC_ZONE, "UTC")], attrs={"data-zones": ""})
        super().__init__(label="Time zone", required=False, max_length=64, widget=widget)

    def clean(self, value: Any) -> str:
        name: str = super().clean(value)
        if zone_named(name) is None:
            raise forms.ValidationError("This time zone is not known. Select one from the list.")
        return name
