"""What telephones find in the directory and in phone books."""

import re
from base64 import b64decode
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from contrib.telephones import phone_books, slapd_socket
from core import loop
from phonebook.models import Contact
from tests.cases.case import Case


def telephone_directory(case: Case, db: None, settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`[contacts]`: a number = its name; `[settings]` for numbers; `[searches]`: a filter as slapd passes it on = the
    attributes of what is found; perhaps `[phone_book]`: a name = the numbers that each format has for it."""
    for name, value in case.data.pop("settings").items():
        setattr(settings, name, value)
    Contact.objects.bulk_create(Contact(number=number, name=name) for number, name in case.data.pop("contacts").items())

    async def run_here(function: Callable[[], Any]) -> Any:
        return function()

    monkeypatch.setattr(loop, "run_with_connection", run_here)
    searches = case.data.pop("searches")
    assert {filter_: _found(filter_) for filter_ in searches} == searches

    expected = case.data.pop("phone_book", {})
    for format_ in phone_books.FORMATS if expected else ():
        file = tmp_path / format_
        call_command("export_phone_book", str(file), "--format", format_, stdout=StringIO())
        text = file.read_text(encoding="utf-8")
        for name, numbers in expected.items():
            [entry] = [line for line in text.split("\n") if f">{name}<" in line]
            assert re.findall(r'[>"](\+?[0-9]{7,})[<"]', entry) == numbers


def _found(filter_: str) -> list[dict[str, list[str]]]:
    answering = slapd_socket.respond(f"SEARCH\nsizelimit: 50\nfilter: {filter_}\n\n")
    with pytest.raises(StopIteration) as done:  # it waits for nothing but `run_here`, which has the test's connection
        answering.send(None)
    reply: bytes = done.value.value
    return [_entry(text) for text in reply.decode().split("\n\n") if text.startswith("dn:")]


def _entry(ldif: str) -> dict[str, list[str]]:
    """The attributes that telephones show or compare."""
    found: dict[str, list[str]] = {}
    for name, separator, value in re.findall(r"(?m)^(cn|telephoneNumber|mobile|homePhone)(::?) (.*)$", ldif):
        found.setdefault(name, []).append(b64decode(value).decode() if separator == "::" else value)
    return found
