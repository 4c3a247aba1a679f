import contextlib
from collections.abc import Iterator

import pytest

from tests.deploy.installation import Installation, installation
from tests.servers import required


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with contextlib.ExitStack() as opened:
        # The claim of a killed process expires half a second after this deadline, before nginx stops waiting.
        environment = {"RATE_LIMIT": "100000/m", "AUTH_FAILURE_RATE": "3/m", "SEARCH_DEADLINE_S": "3"}
        with required():
            found = opened.enter_context(installation(tmp_path_factory.mktemp("hosts"), **environment))
        yield found


@pytest.fixture(scope="module")
def key(installed: Installation) -> str:
    return installed.commands.manage("create_token", "pbx", "--credits", "100000", "--quiet").strip()
