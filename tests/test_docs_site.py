"""Each page of docs/ is in the navigation, each link resolves, and nothing is loaded from elsewhere."""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs_site import PICTURE_BYTES, PICTURES, BuiltPage, build, built_site, copy_sources
from tests.plugin import ROOT
from tests.servers import required

pytestmark = pytest.mark.once

#: Fenced code, in which neither links nor headings count.
FENCES = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_site(tmp_path_factory.mktemp("docs"))


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, BuiltPage]:
    """All but 404.html, whose links are absolute because it is served at any path."""
    return {path: BuiltPage(path) for path in site.rglob("*.html") if path.name != "404.html"}


def targets(pages: dict[Path, BuiltPage]) -> Iterator[tuple[Path, str]]:
    for path, page in pages.items():
        for url in (*page.links, *page.loads):
            yield path, url


def test_each_page_of_docs_is_once_in_the_navigation() -> None:
    def leaves(entries: list[dict[str, object]]) -> Iterator[object]:
        for entry in entries:
            for value in entry.values():
                yield from leaves(value) if isinstance(value, list) else [value]

    nav = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    assert sorted(map(str, leaves(nav))) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))


def test_pictures_are_those_that_the_browser_tests_make() -> None:
    pictures = {path.stem: path.stat().st_size for path in (ROOT / "docs" / "images").glob("*.png")}
    assert pictures.keys() == PICTURES
    assert max(pictures.values()) < PICTURE_BYTES, pictures


def test_each_link_of_the_built_site_resolves(site: Path, pages: dict[Path, BuiltPage]) -> None:
    assert len(pages) >= len(list((ROOT / "docs").glob("*.md")))
    broken = []
    for path, url in targets(pages):
        parts = urlsplit(url)
        if parts.scheme or parts.netloc:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        target = target / "index.html" if target.is_dir() else target
        fragment = unquote(parts.fragment)
        if not target.is_relative_to(site.resolve()) or not target.is_file():
            broken.append(f"{path.name}: {url} does not exist")
        elif fragment and target in pages and fragment not in pages[target].anchors:
            broken.append(f"{path.name}: {url} has no such anchor")
    assert not broken, "\n".join(broken)


def test_no_page_loads_anything_from_another_origin(site: Path, pages: dict[Path, BuiltPage]) -> None:
    loads = [(path.name, url) for path, page in pages.items() for url in page.loads]
    assert loads
    loads += [
        (path.name, url)
        for path in site.rglob("*")
        if path.suffix in (".css", ".svg")
        for url in re.findall(
            r"url\(\s*[\"']?([^)\"']+)|@import\s+[\"']([^\"']+)|xlink:href=[\"']([^\"'#]+)", path.read_text()
        )
        for url in url
        if url
    ]
    assert not [load for load in loads if urlsplit(load[1]).netloc or urlsplit(load[1]).scheme not in ("", "data")]


def test_page_of_unknown_addresses_links_back(site: Path) -> None:
    text = (site / "404.html").read_text(encoding="utf-8")
    assert "<h1>Page not found</h1>" in text
    assert 'href="/index.html">Back to the documentation</a>' in text
    for link in BuiltPage(site / "404.html").links:
        if link.startswith("/"):
            assert (site / link.lstrip("/")).exists(), link


def test_icon_of_the_site_is_the_services() -> None:
    icons = [ROOT / "docs" / "images" / "icon.svg", ROOT / "core" / "static" / "callerid" / "icon.svg"]
    assert icons[0].read_bytes() == icons[1].read_bytes()


def test_no_heading_ends_with_a_number_sign() -> None:
    """The site would drop it: "C#" became "C"."""
    for path in (ROOT / "docs").glob("*.md"):
        text = FENCES.sub("", path.read_text(encoding="utf-8"))
        assert not re.search(r"^#+ .*#$", text, re.MULTILINE), path.name


def test_what_belongs_to_a_list_item_is_indented_by_four() -> None:
    """GitHub takes less; the site would end the list there."""
    less = re.compile(r"(?<=\n\n) {1,3}\S.*|^ {1,3}(?:[-*] |\d+\. ).*", re.MULTILINE)
    wrong = []
    for path in (ROOT / "docs").glob("*.md"):
        wrong += [f"{path.name}: {line}" for line in less.findall(FENCES.sub("", path.read_text(encoding="utf-8")))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("added", "said"),
    [
        ("[away](nowhere.md)", "page does not exist"),
        ("[away](settings.md#nowhere)", "anchor does not exist"),
        ('--8<-- "examples/nowhere.py"', "nowhere.py"),
    ],
)
def test_strict_build_refuses_broken_links(tmp_path: Path, added: str, said: str) -> None:
    with required():
        copy_sources(tmp_path)
    with (tmp_path / "docs" / "index.md").open("a", encoding="utf-8") as page:
        page.write(f"\n{added}\n")
    done = build(tmp_path)
    assert done.returncode != 0
    assert said in done.stdout + done.stderr


def test_a_broken_picture_of_a_page_is_found(tmp_path: Path) -> None:
    """The strict build does not look at pictures; the tests above do."""
    page = tmp_path / "page.html"
    page.write_text(
        '<img src="images/none.png" srcset="a.png 1x, b.png 2x"><a id="here" href="#there">x</a>', encoding="utf-8"
    )
    read = BuiltPage(page)
    assert (read.loads, read.links, read.anchors) == (["images/none.png", "a.png", "b.png"], ["#there"], {"here"})


# --- In the repository -------------------------------------------------------------------------------------------


@cache
def headings(path: Path) -> set[str]:
    """The anchors of a Markdown file, as GitHub names them."""
    found: dict[str, int] = {}
    for title in re.findall(r"^#+ +(.+)$", FENCES.sub("", path.read_text(encoding="utf-8")), re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
    return {slug if not n else f"{slug}-{n}" for slug, last in found.items() for n in range(last + 1)}


def missing(target: Path, fragment: str) -> bool:
    return not target.exists() or bool(fragment and fragment not in headings(target))


def test_links_of_markdown_files_resolve() -> None:
    broken = []
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "deploy").rglob("*.md")]
    for path in files:
        for link in re.findall(r"\]\(([^)\s]+)[^)]*\)", FENCES.sub("", path.read_text(encoding="utf-8"))):
            parts = urlsplit(link)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not parts.scheme and missing(target, parts.fragment):
                broken.append(f"{path.relative_to(ROOT)}: {link}")
    assert not broken, "\n".join(broken)


def test_pages_that_code_and_files_name_exist() -> None:
    """Messages, comments and alerts name pages: `docs/settings.md`, `docs/alerts.md#calleriddown`."""
    listed = subprocess.run(
        ["git", "grep", "-noIE", r"docs/[a-z-]+\.md(#[a-z0-9-]+)?"], cwd=ROOT, capture_output=True, text=True
    )
    mentions = [line.rsplit(":", 1) for line in listed.stdout.splitlines()]
    assert mentions, listed.stderr
    broken = []
    for place, mention in mentions:
        name, _, fragment = mention.partition("#")
        if missing(ROOT / name, fragment):
            broken.append(f"{place}: {mention}")
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("page", ["architecture", "maintaining", "way-of-a-search", "writing-add-ons"])
def test_files_that_developers_pages_name_exist(page: str) -> None:
    """`lookup/views.py`, `vendors/cache.py` and `tests/addons/plain`; not `contrib/<name>/apps.py`."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w./-]+\.(?:py|md|toml|yml)|[a-z]\w*/[\w./-]+)`", text)
    paths = "".join(f"/{path}/\n" for path in listed)
    assert named
    assert not [name for name in named if f"/{name.rstrip('/')}/" not in paths]
