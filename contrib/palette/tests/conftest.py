from tests.console.conftest import clients, rows

__all__ = ["clients", "rows"]
