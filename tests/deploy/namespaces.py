"""Hosts with their own addresses: network namespaces in which nothing but the test's own processes can be reached.

The thread of the test enters the namespace `hub`, and with it all processes that it starts. Each host is a namespace of
its own, connected only to the hub.
"""

import contextlib
import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from tests.servers import Unavailable

CLONE_NEWNET = 0x40000000


@dataclass(frozen=True)
class Host:
    """`hub`: the hub's address on the link to this host."""

    name: str
    address: str
    hub: str

    def command(self, *command: str) -> list[str]:
        """`command`, run on this host."""
        return ["nsenter", f"--net=/run/netns/{self.name}", *command]


@contextlib.contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
    """The calling thread is in the hub meanwhile. Raises Unavailable without the rights or the tools."""
    if missing := [tool for tool in ("ip", "nsenter") if shutil.which(tool) is None]:
        raise Unavailable(f"there is no {' and no '.join(missing)} on PATH (Debian: iproute2, util-linux)")
    prefix = f"callerid-{uuid4().hex[:6]}"
    hub = f"{prefix}-hub"
    made = [Host(f"{prefix}-{n}", f"10.213.{n}.2", f"10.213.{n}.1") for n in range(1, count + 1)]
    names = [hub, *(host.name for host in made)]
    try:
        for name in names:
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        for n, host in enumerate(made):
            _ip("-n", hub, "link", "add", f"to{n}", "type", "veth", "peer", "name", "eth0", "netns", host.name)
            for name, device, address in ((hub, f"to{n}", host.hub), (host.name, "eth0", host.address)):
                _ip("-n", name, "address", "add", f"{address}/24", "dev", device)
                _ip("-n", name, "link", "set", device, "up")
        with _inside(hub):
            yield made
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"ip {' '.join(arguments)} (CAP_NET_ADMIN and CAP_SYS_ADMIN?): {done.stderr.strip()}")


@contextlib.contextmanager
def _inside(name: str) -> Iterator[None]:
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        with Path(f"/run/netns/{name}").open("rb") as namespace:
            _enter(namespace.fileno())
        try:
            yield
        finally:
            _enter(before)
    finally:
        os.close(before)


def _enter(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)  # os.setns is new in Python 3.12
    if libc.setns(descriptor, CLONE_NEWNET):
        raise Unavailable(f"setns: {os.strerror(ctypes.get_errno())}")
