from typing import Any
from uuid import uuid4

NAME, URL = "phonebook_contact_erase", "erase-a-number/"
_PAGE = ("phonebook.contact", "erase")
#: For tests/console/role_table.py.
ROLE_TABLE = {_PAGE: "- - - - yes - yes"}
TYPED: dict[tuple[str, str], dict[str, Any]] = {
    _PAGE: {
        "step": "erase",
        "once": str(uuid4()),
        "number": "493023125043",
        "block": "yes",
        "reference": "letter",
        "confirmed": "on",
    }
}
#: For tests/console/test_missing_country_code.py: by name of the URL, what is sent with the number, and its field.
COUNTRY_CODE_PAGES: dict[str, tuple[dict[str, str], str]] = {NAME: ({}, "number")}
#: For tests/console/test_trail.py.
TRAILS = {URL: ["Numbers", "Erase a number's data"]}
#: For the browser tests.
CONSOLE_PAGES = {"erase-a-number": f"/admin/{URL}"}
#: For the tests of the palette: the name of the page that these words find.
FOUND_BY_WORDS = dict.fromkeys(("erase", "GDPR", "personal data", "forget", "right to erasure", "delete my data"), NAME)
