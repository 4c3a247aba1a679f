from tests.adoption import installations
from tests.test_upgrades import postgresql, roles

__all__ = ["installations", "postgresql", "roles"]
