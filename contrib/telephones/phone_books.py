"""Phone books in XML, which telephones download as a whole."""

from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import NamedTuple
from xml.sax.saxutils import escape

from contrib.telephones import directory


class Format(NamedTuple):
    """`entry`: with {name} and {numbers}. `numbers`: with {number}, for the first and the second one. `limit`: of the
    entries of a telephone's own directory, as its vendor documents; None: not documented."""

    start: str
    entry: str
    numbers: tuple[str, str]
    end: str
    limit: int | None = None


FORMATS = {
    "yealink": Format(
        "<YealinkIPPhoneDirectory>",
        "<DirectoryEntry><Name>{name}</Name>{numbers}</DirectoryEntry>",
        ("<Telephone>{number}</Telephone>",) * 2,
        "</YealinkIPPhoneDirectory>",
        limit=1000,
    ),
    "snom": Format(
        '<tbook e="2" version="2.0">',
        '<contact fav="false" vip="false" blocked="false"><first_name/><last_name>{name}</last_name>'
        "<numbers>{numbers}</numbers></contact>",
        (
            '<number no="{number}" type="home" outgoing_id="0"/>',
            '<number no="{number}" type="business" outgoing_id="0"/>',
        ),
        "</tbook>",
        limit=250,
    ),
    "grandstream": Format(
        "<AddressBook>\n<version>1</version>",
        "<Contact><FirstName/><LastName>{name}</LastName>{numbers}</Contact>",
        (
            '<Phone type="Work"><phonenumber>{number}</phonenumber><accountindex>0</accountindex></Phone>',
            '<Phone type="Home"><phonenumber>{number}</phonenumber><accountindex>0</accountindex></Phone>',
        ),
        "</AddressBook>",
    ),
}


def write(path: Path, chosen: Format) -> int:
    """Replaces the file, readable for a web server, by a complete phone book; returns how many entries it has. Raises
    OSError and django.db's errors, with the former file unchanged."""
    count = 0
    with NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=".", delete=False) as file:
        try:
            file.write(f'<?xml version="1.0" encoding="UTF-8"?>\n{chosen.start}\n')
            for count, entry in enumerate(directory.everyone(), 1):  # noqa: B007
                # Telephones compare them with the caller's, digit by digit.
                forms = dict.fromkeys([directory.dialed_number(entry.number), f"+{entry.number}"])
                numbers = "".join(text.format(number=form) for text, form in zip(chosen.numbers, forms, strict=False))
                file.write(chosen.entry.format(name=escape(entry.name), numbers=numbers) + "\n")
            file.write(chosen.end + "\n")
            file.close()
            Path(file.name).chmod(0o644)
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
    return count
