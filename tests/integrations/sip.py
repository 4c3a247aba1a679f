"""Calls over real sockets: SIPp as the caller and as the telephone, with Kamailio or another server between them."""

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psycopg

from tests import plugin
from tests.servers import Server, Unavailable, free_port

CONFIGURATION = plugin.ROOT / "integrations" / "kamailio" / "kamailio.cfg"
#: The caller's, unless a test has another.
NUMBER = "+493023125555"
#: Far longer than any step takes, also on a busy machine.
LIMIT_S = 60


def binary(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        raise Unavailable(f"there is no {name} on PATH or in /usr/sbin")
    return found


class SipServer(Server):
    """A SIP server on a UDP port. `settings`: its environment, without `CALLERID_`."""

    def __init__(self, **settings: str) -> None:
        super().__init__()
        self.settings = [f"CALLERID_{name}={value}" for name, value in settings.items()]

    @property
    def url(self) -> str:
        return f"sip:127.0.0.1:{self.port}"

    def require_answer(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.settimeout(0.2)
            try:
                probe.connect(("127.0.0.1", self.port))
                here = f"127.0.0.1:{probe.getsockname()[1]}"
                probe.send(
                    f"OPTIONS {self.url} SIP/2.0\r\nVia: SIP/2.0/UDP {here};branch=z9hG4bK-probe\r\n"
                    f"Max-Forwards: 70\r\nFrom: <sip:probe@{here}>;tag=1\r\nTo: <{self.url}>\r\nCall-ID: probe\r\n"
                    "CSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n".encode()
                )
                probe.recv(65536)
            except OSError as error:
                raise psycopg.OperationalError from error  # what `start` waits for

    def log(self) -> str:
        return (self.directory / "log").read_text(encoding="utf-8", errors="replace")

    def wait_for_log(self, text: str) -> None:
        deadline = time.monotonic() + LIMIT_S
        while text not in self.log():
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.02)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()


class Kamailio(SipServer):
    """The shipped configuration, unchanged. `define`: as of `-A`."""

    def __init__(self, define: Sequence[str] = (), **settings: str) -> None:
        super().__init__(**settings)
        self._binary = binary("kamailio")
        self._define = [f"-A{definition}" for definition in define]

    def command(self) -> list[str]:
        return [
            *("env", *self.settings, self._binary, "-DD", "-E", "-f", str(CONFIGURATION), *self._define),
            *("-l", f"udp:127.0.0.1:{self.port}", "-Y", str(self.directory)),
        ]

    def check(self) -> subprocess.CompletedProcess[str]:
        """What `kamailio -c` says about the configuration."""
        return subprocess.run([*self.command(), "-c"], capture_output=True, text=True, check=False)


@dataclass(frozen=True)
class Message:
    """A SIP message, as SIPp logged it."""

    sent: bool
    raw: bytes

    @property
    def start(self) -> str:
        return self.raw.partition(b"\r\n")[0].decode()

    @property
    def fields(self) -> list[tuple[str, str]]:
        """Name and value of each header field, in order."""
        lines = self.raw.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
        return [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]

    def all(self, name: str) -> list[str]:
        return [value for other, value in self.fields if other == name]

    def __getitem__(self, name: str) -> str:
        (value,) = self.all(name)
        return value


def _messages(log: Path) -> list[Message]:
    data = log.read_bytes()
    marks = re.finditer(rb"^UDP message (received|sent) [(\[](\d+)[)\]]? ?bytes[^\n]*:\n\n", data, re.MULTILINE)
    return [Message(mark[1] == b"sent", data[mark.end() : mark.end() + int(mark[2])]) for mark in marks]


SDP = "v=0\no=- 1 1 IN IP4 [local_ip]\ns=-\nc=IN IP4 [local_ip]\nt=0 0\nm=audio 6000 RTP/AVP 0\n"


def send(text: str, body: str = "", *, retransmit: bool = False) -> str:
    """A step of a scenario that sends `text`, which needs no Content-Length."""
    attribute = ' retrans="500"' if retransmit else ""
    content = f"Content-Type: application/sdp\nContent-Length: [len]\n\n{body}" if body else "Content-Length: 0\n"
    return f"<send{attribute}><![CDATA[\n{text.strip()}\n{content}\n]]></send>\n"


def reply(status: str, body: str = "") -> str:
    copied = "[last_Via:]\n[last_Record-Route:]\n[last_From:]\n[last_To:]\n[last_Call-ID:]\n[last_CSeq:]"
    return send(f"SIP/2.0 {status}\n{copied}\nContact: <sip:[local_ip]:[local_port]>", body)


def first_reply(status: str, body: str = "") -> str:
    return reply(status, body).replace("[last_To:]", "[last_To:];tag=[pid]-[call_number]")


#: Whom callers call.
CALLED = "sip:100@192.0.2.10"


class Caller:
    """What a caller sends: `from_` is its From without a tag, where [field0] stands for the number."""

    def __init__(self, from_: str = '"Caller" <sip:[field0]@198.51.100.5>', headers: str = "") -> None:
        self.from_, self.headers = from_, headers

    def request(self, method: str, sequence: int, *, within: bool = False, body: str = "", headers: str = "") -> str:
        uri, to = ("[next_url]", "[routes]\n[last_To:]") if within else (CALLED, f"To: <{CALLED}>")
        branch = "z9hG4bK-[pid]-[call_number]" if method in ("INVITE", "CANCEL") and not within else "[branch]"
        lines = [
            f"{method} {uri} SIP/2.0",
            f"Via: SIP/2.0/[transport] [local_ip]:[local_port];branch={branch}",
            f"From: {self.from_};tag=[pid]-[call_number]",
            to,
            "Call-ID: [call_id]",
            f"CSeq: {sequence} {method}",
            "Contact: <sip:[local_ip]:[local_port]>",
            "Max-Forwards: 70",
            *(headers.strip().splitlines()),
        ]
        return send("\n".join(lines), body, retransmit=method != "ACK")

    def invite(self) -> str:
        return self.request("INVITE", 1, body=SDP, headers=self.headers)

    def within(self, method: str, sequence: int, body: str = "", headers: str = "") -> str:
        return self.request(method, sequence, within=True, body=body, headers=headers)

    def answered(self) -> str:
        return (
            self.invite()
            + '<recv response="100" optional="true"/>'
            + '<recv response="200" rrs="true"/>\n'
            + self.within("ACK", 1)
        )

    def call(self) -> str:
        return self.answered() + self.within("BYE", 2) + '<recv response="200"/>\n'


#: The telephone system answers and the caller hangs up. The BYE may come before the ACK: each of them is forwarded by
#: another process.
ANSWER = (
    '<recv request="INVITE" rrs="true"/>\n'
    + first_reply("200 OK", SDP)
    + '<recv request="ACK" optional="true"/><recv request="BYE"/>\n'
    + reply("200 OK")
)


class Sipp:
    """A SIPp that runs `steps`."""

    def __init__(self, directory: Path, name: str, steps: str, *arguments: str) -> None:
        self.port = free_port()
        self._log, self._errors = directory / f"{name}.messages", directory / f"{name}.errors"
        scenario = directory / f"{name}.xml"
        scenario.write_text(
            f'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE scenario SYSTEM "sipp.dtd">\n<scenario name="{name}">\n'
            f"{steps}</scenario>\n",
            encoding="utf-8",
        )
        self.process = subprocess.Popen(
            [
                *(binary("sipp"), *arguments, "-sf", str(scenario), "-i", "127.0.0.1", "-p", str(self.port)),
                *("-nostdin", "-trace_msg", "-message_file", str(self._log)),
                *("-trace_err", "-error_file", str(self._errors), "-recv_timeout", f"{LIMIT_S}s"),
            ],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def messages(self) -> list[Message]:
        return _messages(self._log) if self._log.exists() else []

    def require_success(self) -> None:
        """Wait until all its calls took place as in the scenario."""
        status = self.process.wait(LIMIT_S * 2)
        errors = self._errors.read_text(errors="replace") if self._errors.exists() else ""
        assert status == 0, f"SIPp ended with {status}:\n{errors}"

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass(frozen=True)
class Call:
    """A call of `caller` that reached the telephone system."""

    sent: Message
    received: Message
    replies: list[Message]

    @property
    def number(self) -> str:
        return re.findall(r"sip:([^@]*)@", self.sent["From"])[0]


class Network:
    """A telephone system that runs the scenario `answer`, and callers."""

    def __init__(self, directory: Path, answer: str = ANSWER) -> None:
        self._directory, self._callers = directory, 0
        self.system = Sipp(directory, "system", answer)

    @property
    def url(self) -> str:
        return f"sip:127.0.0.1:{self.system.port}"

    def start(self, proxy: SipServer, numbers: Sequence[str], steps: str, *arguments: str) -> Sipp:
        """A SIPp that calls from each of the numbers."""
        self._callers += 1
        name = f"caller-{self._callers}"
        fields = self._directory / f"{name}.csv"
        fields.write_text("SEQUENTIAL\n" + "".join(f"{number};\n" for number in numbers), encoding="utf-8")
        more = ("-inf", str(fields), "-m", str(len(numbers)), *arguments)
        return Sipp(self._directory, name, steps, f"127.0.0.1:{proxy.port}", *more)

    def call(self, proxy: SipServer, *numbers: str, steps: str = "", arguments: Sequence[str] = ()) -> list[Call]:
        """Call from each of the numbers; every call is answered and ended in order."""
        caller = self.start(proxy, numbers, steps or Caller().call(), *arguments)
        caller.require_success()
        received: dict[str, Message] = {}
        for message in self.system.messages():
            if not message.sent and message.start.startswith("INVITE "):
                received.setdefault(message["Call-ID"], message)
        sent: dict[str, Message] = {}
        replies: dict[str, list[Message]] = {}
        for message in caller.messages():
            if message.sent:
                sent.setdefault(message["Call-ID"], message)
            else:
                replies.setdefault(message["Call-ID"], []).append(message)
        return [Call(message, received[key], replies[key]) for key, message in sent.items()]

    def close(self) -> None:
        self.system.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


#: What each proxy on the way adds or counts.
PROXY_FIELDS = {"Via", "Record-Route", "Max-Forwards"}


def changes(call: Call) -> list[tuple[str, str]]:
    """The header fields that differ behind Kamailio, "-" before the name of one that is gone."""
    head, body = (message.raw.partition(b"\r\n\r\n")[::2] for message in (call.sent, call.received))
    assert head[1] == body[1]
    sent, received = (
        [field for field in message.fields if field[0] not in PROXY_FIELDS] for message in (call.sent, call.received)
    )
    gone = [(f"-{name}", value) for name, value in sent if (name, value) not in received]
    return gone + [field for field in received if field not in sent]


def named(call: Call, name: str, number: str = NUMBER) -> list[tuple[str, str]]:
    """The changes of a call that gets a name."""
    before = call.sent["From"]
    uri = before[before.index("<") :]
    host = uri.partition("@")[2].partition(">")[0]
    return [
        ("-From", before),
        ("From", f'"{name}" {uri}'),
        ("P-Asserted-Identity", f'"{name}" <sip:{number}@{host}>'),
    ]


def compare_with_documentation(kamailio: Kamailio, spam: Call, refused: Call) -> None:
    """The page shows these INVITEs with addresses for documentation."""
    assert documented(spam.sent, kamailio, spam) == documented(refused.sent, kamailio, refused)
    shown = [
        documented(message, kamailio, call)
        for message, call in ((spam.sent, spam), (spam.received, spam), (refused.received, refused))
    ]
    page = (plugin.ROOT / "docs" / "telephone-systems.md").read_text(encoding="utf-8")
    assert re.findall(r"```text\n(INVITE.*?\n)```", page, re.DOTALL) == shown, "\n".join(shown)


def documented(message: Message, kamailio: Kamailio, call: Call) -> str:
    """The header of a message, with documentation's addresses and without what differs between two calls."""
    text = message.raw.partition(b"\r\n\r\n")[0].decode().replace("\r\n", "\n") + "\n"
    text = text.replace(f"127.0.0.1:{kamailio.port}", "192.0.2.10")
    text = text.replace(call.sent["Contact"].removeprefix("<sip:").removesuffix(">"), "198.51.100.5")
    for pattern, constant in (
        (r"branch=z9hG4bK\S+", "branch=z9hG4bK1"),
        (r"tag=[\d-]+", "tag=1"),
        (r"(?<=Call-ID: ).*", "1@198.51.100.5"),
        (r"(?<=Content-Length:) +", " "),
    ):
        text = re.sub(pattern, constant, text)
    return text
