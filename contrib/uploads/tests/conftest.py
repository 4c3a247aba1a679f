from tests.adoption import installations
from tests.phonebook.conftest import _no_pause, file
from tests.phonebook.imports.conftest import write
from tests.test_upgrades import postgresql, roles

__all__ = ["_no_pause", "file", "installations", "postgresql", "roles", "write"]
