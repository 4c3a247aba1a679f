from tests.lookup.commands.conftest import mine
from tests.lookup.vendors.conftest import make

__all__ = ["make", "mine"]
