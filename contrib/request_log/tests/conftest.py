import pytest

from contrib.request_log import log


@pytest.fixture(autouse=True)
def _no_rate_limited() -> None:
    log.rate_limited.clear()
