"""OpenSIPS with the shipped configuration.

No release of Debian has a package, so these tests run where `opensips` is on PATH, or TEST_OPENSIPS names the program
and TEST_OPENSIPS_MODULES the directory of its modules.
"""

import os
import re
import shutil

from tests import plugin
from tests.integrations.sip import SipServer

CONFIGURATION = plugin.ROOT / "integrations" / "opensips" / "opensips.cfg"


def program() -> str | None:
    return os.environ.get("TEST_OPENSIPS") or shutil.which("opensips", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


class OpenSips(SipServer):
    """The shipped configuration, except for the address, the place of the modules and the log."""

    def __init__(self, **settings: str) -> None:
        super().__init__(**settings)
        self._program = str(program())
        modules = os.environ.get("TEST_OPENSIPS_MODULES")
        text = CONFIGURATION.read_text(encoding="utf-8")
        text = re.sub(
            r"^socket=.*", f"socket=udp:127.0.0.1:{self.port}\nstderror_enabled=yes", text, flags=re.MULTILINE
        )
        if modules:
            text = re.sub(r"^mpath=.*", f'mpath="{modules}/"', text, flags=re.MULTILINE)
        (self.directory / "opensips.cfg").write_text(text, encoding="utf-8")

    def command(self) -> list[str]:
        configuration = str(self.directory / "opensips.cfg")
        return ["env", *self.settings, self._program, "-F", "-w", str(self.directory), "-f", configuration]
