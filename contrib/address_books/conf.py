import re
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from callerid_project.environment import Environment


def read(env: Environment) -> dict[str, Any]:
    """ADDRESS_BOOKS: what `sync_contacts` synchronizes, in the order of priority. `books.read` reads
    ADDRESS_BOOK_<NAME>_…, which describe each."""
    names = env.words("ADDRESS_BOOKS", [])
    if not all(re.fullmatch("[a-z][a-z0-9_]{0,31}", name) for name in names) or len(set(names)) < len(names):
        raise ImproperlyConfigured(
            "ADDRESS_BOOKS must be different names of lower-case letters, digits and '_', separated by commas: "
            "ADDRESS_BOOKS=office,sales."
        )
    return {"ADDRESS_BOOKS": names}
