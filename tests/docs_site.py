"""The documentation site, built in a temporary folder."""

import importlib.util
import os
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

from tests.plugin import ROOT
from tests.servers import Unavailable, required

#: What the build reads: pages include files of the others.
READ = ("zensical.toml", "docs", "deploy", "examples", "integrations")

#: The screenshots in docs/images, which test_docs_images.py in the browser tests makes.
PICTURES = {
    "home-search",
    "customer-page",
    "console-dashboard",
    "console-token",
    "console-customer",
    "console-ledger-entry",
    "console-requests",
    "console-request",
    "console-sources",
    "console-source",
    "console-alerts",
    "console-test-a-number",
}
PICTURE_BYTES = 150_000


def copy_sources(directory: Path) -> None:
    """Copy what the build reads. Raises Unavailable if the site generator is not installed."""
    if importlib.util.find_spec("zensical") is None:
        raise Unavailable("zensical is not installed: run `./run docs build` first")
    for name in READ:
        if (source := ROOT / name).is_dir():
            shutil.copytree(source, directory / name)
        elif source.exists():
            shutil.copy(source, directory)


def build(directory: Path) -> subprocess.CompletedProcess[str]:
    """As `./run docs build`: into `directory`/site."""
    return subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean", "--strict"],
        cwd=directory,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def built_site(directory: Path) -> Path:
    """The folder of a site that was built without a warning; skips the test if the generator is not installed."""
    with required():
        copy_sources(directory)
    done = build(directory)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory / "site"


class BuiltPage(HTMLParser):
    """`links` point to another page, `loads` are requested by this one; `anchors` can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value is not None}
        if anchor := values.get("id") or (tag == "a" and values.get("name")):
            self.anchors.add(anchor)
        if "href" in values:
            (self.links if tag == "a" else self.loads).append(values["href"])
        self.loads += [values[name] for name in ("src", "data", "poster", "action") if name in values]
        self.loads += [part.split()[0] for part in values.get("srcset", "").split(",") if part.strip()]
