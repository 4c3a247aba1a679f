"""What the tests of tokens and their admin share."""

import pytest

from accounts import tokens
from accounts.models import ApiToken


@pytest.fixture
def token(db: None) -> ApiToken:
    """With 30 credits."""
    return tokens.issue(name="pbx", initial_credits=30, actor="test").token
