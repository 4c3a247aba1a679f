"""Asterisk with the shipped dialplan and AGI script, and what a test needs around them.

Debian 12 has no package, so Asterisk is taken from PATH, or with its libraries and modules from the directory that
TEST_ASTERISK_ROOT names, into which `.ci/asterisk` unpacks Debian's packages of a later or earlier release.
"""

import os
import platform
from pathlib import Path

from tests import plugin
from tests.integrations.sip import SipServer, binary
from tests.servers import Unavailable

FILES = plugin.ROOT / "integrations" / "asterisk"
#: What the dialplan needs, and a trunk and a telephone with SIP. The rest would need more configuration, and ports.
MODULES = """
    app_dial app_exec app_stack bridge_simple chan_pjsip codec_ulaw func_callerid func_channel func_strings pbx_config
    res_agi res_pjproject res_pjsip res_pjsip_caller_id res_pjsip_endpoint_identifier_ip res_pjsip_header_funcs
    res_pjsip_pubsub res_pjsip_sdp_rtp res_pjsip_session res_rtp_asterisk res_sorcery_astdb res_sorcery_config
    res_sorcery_memory res_speech
"""
PJSIP = """
[udp]
type = transport
protocol = udp
bind = 127.0.0.1:{port}

[trunk]
type = endpoint
context = callerid-incoming
allow = !all,ulaw
direct_media = no
trust_id_inbound = yes

[trunk]
type = identify
endpoint = trunk
match = 127.0.0.1

[100]
type = endpoint
aors = 100
allow = !all,ulaw
direct_media = no

[100]
type = aor
contact = {telephone}
"""


class Asterisk(SipServer):
    """`telephone`: the address of number 100."""

    def __init__(self, *, telephone: str, **settings: str) -> None:
        super().__init__(**settings)
        self._program, modules, data = _installed()
        here = self.directory
        directories = {"astetcdir": here, "astagidir": FILES, "astmoddir": modules, "astdatadir": data}
        for name in ("astvarlibdir", "astdbdir", "astkeydir", "astspooldir", "astrundir", "astlogdir"):
            directories[name] = here / name
            directories[name].mkdir()
        configuration = {
            "asterisk": "[directories]\n" + "".join(f"{name} => {path}\n" for name, path in directories.items()),
            "modules": "[modules]\nautoload = no\n" + "".join(f"load = {name}.so\n" for name in MODULES.split()),
            "logger": "[logfiles]\nmessages = notice,warning,error,verbose\n",
            "extensions": f"#include {FILES}/extensions.conf\n",
            "pjsip": PJSIP.format(port=self.port, telephone=telephone),
        }
        for name, text in configuration.items():
            (here / f"{name}.conf").write_text(text, encoding="utf-8")

    def command(self) -> list[str]:
        return ["env", *self.settings, *self._program, "-f", "-v", "-C", str(self.directory / "asterisk.conf")]

    def log(self) -> str:
        messages = self.directory / "astlogdir" / "messages"
        return super().log() + (messages.read_text(encoding="utf-8", errors="replace") if messages.exists() else "")


def _installed() -> tuple[list[str], Path, Path]:
    """The program, the directory of its modules, and that of its data. Raises Unavailable."""
    root = os.environ.get("TEST_ASTERISK_ROOT")
    if not root:
        try:
            program = [binary("asterisk")]
        except Unavailable as error:
            raise Unavailable(f"{error}; .ci/asterisk unpacks it, and TEST_ASTERISK_ROOT names it") from error
    usr = Path(root or "/") / "usr"
    architecture = f"{platform.machine()}-linux-gnu"
    if root:
        libraries = [Path(root) / place / "lib" / architecture for place in ("", "usr")] + [usr / "lib"]
        loaders = [loader for path in libraries for loader in path.glob("ld-linux-*.so.*")]
        if not loaders:
            raise Unavailable(f"there is no Asterisk in TEST_ASTERISK_ROOT={root}")
        # Its libraries are newer or older than the system's. The AGI script runs with the system's.
        program = [str(loaders[0]), "--library-path", ":".join(map(str, libraries)), str(usr / "sbin" / "asterisk")]
    modules = [path / "asterisk" / "modules" for path in (usr / "lib" / architecture, usr / "lib")]
    return program, modules[not modules[0].is_dir()], usr / "share" / "asterisk"
