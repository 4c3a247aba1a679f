"""FreeSWITCH with the shipped script, and what a test needs around it.

No release of Debian has a package, so these tests run where TEST_FREESWITCH names an installation, such as
/usr/local/freeswitch, with mod_commands, mod_console, mod_curl, mod_dialplan_xml, mod_dptools, mod_lua and mod_sofia.
"""

import os
from pathlib import Path

import psycopg

from tests import plugin
from tests.integrations.sip import SipServer

MODULES = ("mod_console", "mod_commands", "mod_dptools", "mod_dialplan_xml", "mod_lua", "mod_curl", "mod_sofia")
CONFIGURATION = """<document type="freeswitch/xml">
<section name="configuration">
<configuration name="switch.conf"><settings>
<param name="max-sessions" value="1000"/><param name="sessions-per-second" value="1000"/>
<param name="loglevel" value="warning"/>
</settings></configuration>
<configuration name="modules.conf"><modules>{modules}</modules></configuration>
<configuration name="console.conf"><mappings><map name="all" value="console,warning,err,crit,alert"/></mappings>
<settings><param name="colorize" value="false"/><param name="loglevel" value="warning"/></settings></configuration>
<configuration name="lua.conf"><settings/></configuration>
<configuration name="curl.conf"><settings/></configuration>
<configuration name="sofia.conf"><profiles><profile name="public"><settings>
<param name="context" value="public"/><param name="dialplan" value="XML"/>
<param name="sip-ip" value="127.0.0.1"/><param name="rtp-ip" value="127.0.0.1"/><param name="sip-port" value="{port}"/>
<param name="auth-calls" value="false"/><param name="manage-presence" value="false"/>
<param name="inbound-codec-prefs" value="PCMU"/><param name="outbound-codec-prefs" value="PCMU"/>
</settings></profile></profiles></configuration>
</section>
<section name="dialplan"><context name="public"><extension name="all"><condition>
<action application="lua" data="callerid.lua"/>
<action application="bridge" data="sofia/public/{telephone}"/>
</condition></extension></context></section>
</document>
"""


class FreeSwitch(SipServer):
    """`telephone`: the address that every call is bridged to, without `sip:`."""

    def __init__(self, *, telephone: str, **settings: str) -> None:
        super().__init__(**settings)
        self._root = Path(os.environ["TEST_FREESWITCH"])
        modules = "".join(f'<load module="{name}"/>' for name in MODULES)
        text = CONFIGURATION.format(directory=self.directory, port=self.port, telephone=telephone, modules=modules)
        (self.directory / "freeswitch.xml").write_text(text, encoding="utf-8")

    def command(self) -> list[str]:
        here = str(self.directory)
        directories = [f"-{name}" for name in ("conf", "log", "run", "db", "temp", "storage", "cache", "recordings")]
        return [
            *(
                "env",
                *self.settings,
                "stdbuf",
                "-oL",
                str(self._root / "bin" / "freeswitch"),
                "-nf",
                "-nonat",
                "-nocal",
                "-c",
            ),
            *(argument for name in directories for argument in (name, here)),
            *("-mod", str(next(self._root.glob("**/mod_sofia.so")).parent)),
            *("-scripts", str(plugin.ROOT / "integrations" / "freeswitch")),
        ]

    def require_answer(self) -> None:
        super().require_answer()
        if "FreeSWITCH (" not in self.log():  # printed when it accepts calls; before, it answers with 503
            raise psycopg.OperationalError
