"""What a CardDAV server may send."""

import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from contrib.address_books.models import AddressBook
from contrib.address_books.tests.servers import collection, member, multistatus, vcard
from phonebook.models import Contact
from tests.cases.case import Case
from tests.upstream import Conversation, Upstream, raw


def address_book(case: Case, db: None, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CardDAV book of three cards, of which Bob's makes each response with it unreadable: by a text in his card, in
    ISO 8859-1, or a status. Two runs: what they store, report and request."""
    settings.ADDRESS_BOOKS = ["office"]
    cards = {"alice": "+12025550151", "bob": "+12025550152", "carol": "+442079460153"}
    requested: list[list[str]] = []
    damage: str | int = ""

    def behave(conversation: Conversation) -> bool:
        if conversation.head.startswith(b"PROPFIND"):
            listed = (member(f"/book/{name}.vcf", f'"{name}"') for name in cards)
            return raw(multistatus(collection("/book/"), *listed).encode(), 207)(conversation)
        names = re.findall("<href>/book/([a-z]+).vcf</href>", conversation.body.decode())
        requested.append(names)
        if "bob" in names and isinstance(damage, int):
            return raw(b"", damage)(conversation)
        texts = {name: vcard(name.title(), cards[name], place=str(damage) if name == "bob" else "") for name in names}
        found = (member(f"/book/{name}.vcf", f'"{name}"', text) for name, text in texts.items())
        return raw(multistatus(*found).encode("latin-1"), 207)(conversation)

    server = Upstream(behave).start()
    monkeypatch.setenv("ADDRESS_BOOK_OFFICE_URL", f"{server.url}/book/")
    got = []
    try:
        for n, each in enumerate(case.data.pop("damages")):
            damage = each
            AddressBook.objects.all().delete()
            Contact.objects.all().delete()
            requested.clear()
            output = StringIO()
            for run in range(2):
                rejects = tmp_path / f"{n}.{run}"
                with pytest.raises(CommandError):
                    call_command("sync_contacts", "--rejects", str(rejects), stdout=output, stderr=output)
            names = sorted(Contact.objects.values_list("name", flat=True))
            got.append(
                (names, "office /book/bob.vcf" in rejects.read_text(), AddressBook.objects.get().error, requested[-1])
            )
    finally:
        server.stop()
    error = "cards that cannot be read: 1; --rejects lists them"
    assert set(map(repr, got)) == {repr((["Alice", "Carol"], True, error, ["bob"]))}
