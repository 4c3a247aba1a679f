from tests.phonebook.conftest import _no_pause, file, publishers
from tests.phonebook.imports.conftest import write

__all__ = ["_no_pause", "file", "publishers", "write"]
