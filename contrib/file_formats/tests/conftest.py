from contrib.file_formats.tests.refreshing import publishers
from tests.phonebook.conftest import _no_pause, file

__all__ = ["_no_pause", "file", "publishers"]
