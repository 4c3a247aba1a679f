from tests.test_upgrades import postgresql, roles

__all__ = ["postgresql", "roles"]
