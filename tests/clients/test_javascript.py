"""What only the JavaScript client has: its arguments, an AbortSignal, and Node.js's own connections."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

import callerid_client
from tests import upstream
from tests.examples.cases import NUMBER, OK, Script
from tests.plugin import ROOT
from tests.servers import Unavailable, required
from tests.upstream import Upstream

pytestmark = pytest.mark.once

CLIENT = (ROOT / "clients" / "javascript" / "index.js").as_uri()


def node(code: str, **values: object) -> Any:
    """What the module `code` prints, as JSON. It has the package as `callerid`, and `values`."""
    with required():
        if not (program := shutil.which("node")):
            raise Unavailable("there is no node on PATH")
    known = "".join(f"const {name} = {json.dumps(value)};\n" for name, value in values.items())
    done = subprocess.run(
        [program, "--input-type=module", "-e", f'import * as callerid from "{CLIENT}";\n{known}{code}'],
        env={**os.environ, "NO_PROXY": "*"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_it_exports_the_same_errors_as_the_python_client() -> None:
    exported = set(node("console.log(JSON.stringify(Object.keys(callerid)));"))
    errors = {name for name, value in vars(callerid_client).items() if isinstance(value, type) and value.__base__}
    errors = {name for name in errors if issubclass(getattr(callerid_client, name), Exception)}
    assert exported == {"Client", *errors}


def test_invalid_arguments_are_refused() -> None:
    arguments: list[list[object]] = [
        [url, "a.b.c"] for url in (None, "", "example.org", "ftp://example.org", "https://a:b@example.org")
    ]
    arguments += [[url, "a.b.c"] for url in ("https://example.org?a=b", "https://example.org#a", "https://h:99999")]
    tokens = (None, "", 7, "\n", "a.b.c\nd.e.f", "Bearer a.b.c", '"a.b.c"', "a.b.\u0441")
    arguments += [["https://example.org", token] for token in tokens]
    limits = [{"attempts": 0}, {"attempts": 1.5}, {"attemptTimeoutMs": 0}, {"totalTimeoutMs": 2**31}]
    arguments += [["https://example.org", "a.b.c", options] for options in limits]
    not_strings: list[object] = [None, ["a"], 7]
    searches = [{"idempotencyKey": key} for key in ("", "a b", "a\r\nb", "é", "x" * 256, *not_strings)]
    searches += [{"requestId": name} for name in ("", "a b", "a\n", "x" * 65, *not_strings)]
    code = """
        const refusals = [];
        const attempt = async (action) => refusals.push(await action().then(() => "none", (error) => error.name));
        for (const values of made) await attempt(async () => new callerid.Client(...values));
        const client = new callerid.Client("http://127.0.0.1:1", "a.b.c");
        for (const options of searches) await attempt(() => client.search("12125550142", options));
        console.log(JSON.stringify(refusals));
    """
    assert node(code, made=arguments, searches=searches) == ["TypeError"] * (len(arguments) + len(searches))


def test_package_can_be_required() -> None:
    """By Node.js 20.19, 22.12 and newer, as its page says."""
    code = f"""
        import {{ createRequire }} from "node:module";
        const required = createRequire(import.meta.url)({json.dumps(str(ROOT / "clients" / "javascript"))});
        console.log(JSON.stringify(required.Client === callerid.Client));
    """
    version = node("console.log(JSON.stringify(process.versions.node.split('.').map(Number)));")
    if version < [20, 19] or [21] <= version < [22, 12]:
        pytest.skip("this Node.js requires no ES modules")
    assert node(code) is True


def test_searches_share_a_signal(vendor: Callable[..., Upstream]) -> None:
    """Node.js warns of more than ten listeners of a signal. That of the program stays as it was."""
    code = """
        const { getEventListeners, getMaxListeners } = await import("node:events");
        const client = new callerid.Client(url, "a.b.c", { totalTimeoutMs: 60_000 });
        const { signal } = new AbortController();
        const results = await Promise.all(Array(20).fill().map(() => client.search(number, { signal })));
        console.log(JSON.stringify(
          [results.length, getMaxListeners(signal), getMaxListeners(new AbortController().signal),
            getEventListeners(signal, "abort")],
        ));
    """
    count, limit, default, listeners = node(code, url=vendor(Script([upstream.resets] * 15 + [OK])).url, number=NUMBER)
    assert (count, listeners) == (20, [])
    assert limit == default


def test_defaults_wait_for_a_restart(vendor: Callable[..., Upstream]) -> None:
    code = """
        const client = new callerid.Client(url, "a.b.c", { totalTimeoutMs: 60_000 });
        console.log((await client.search(number)).creditsRemaining);
    """
    assert node(code, url=vendor(Script([upstream.resets] * 4 + [OK])).url, number=NUMBER) == 9


def test_unknown_members_are_absent(vendor: Callable[..., Upstream]) -> None:
    code = """
        const [found, failed] = urls.map((url) => new callerid.Client(url, "a.b.c").search(number));
        const error = await failed.catch((reason) => reason);
        console.log(JSON.stringify([Object.keys(await found), Object.keys(error)]));
    """
    members, of_error = node(code, urls=[vendor(OK).url, vendor(upstream.raw(b"", 400)).url], number=NUMBER)
    assert set(members) == {"success", "data", "creditsRemaining", "replayed", "outcomes"}
    assert set(of_error) == {"name", "detail", "status"}


def test_searches_share_connections(vendor: Callable[..., Upstream]) -> None:
    server = vendor(OK)
    code = """
        const client = new callerid.Client(url, "a.b.c");
        for (let i = 0; i < 5; i++) await client.search(number);
        console.log((await client.search(number)).creditsRemaining);
    """
    assert node(code, url=server.url, number=NUMBER) == 9
    assert server.connections <= 2  # fetch opens the second before the first is ready again


def test_abort_signal_ends_a_search_and_its_retries(vendor: Callable[..., Upstream]) -> None:
    hanging, failing = vendor(upstream.hangs), vendor(upstream.raw(b"", 429, "Retry-After: 30\r\n"))
    code = """
        const options = { attemptTimeoutMs: 60_000, totalTimeoutMs: 60_000 };
        const reasons = [];
        for (const url of urls) {
          const controller = new AbortController();
          setTimeout(() => controller.abort("hung up"), 300);
          const client = new callerid.Client(url, "a.b.c", options);
          reasons.push(await client.search(number, { signal: controller.signal }).catch((reason) => reason));
          reasons.push(await client.search(number, { signal: controller.signal }).catch((reason) => reason));
        }
        console.log(JSON.stringify(reasons));
    """
    assert node(code, urls=[hanging.url, failing.url], number=NUMBER) == ["hung up"] * 4
    assert (len(hanging.heads), len(failing.heads)) == (1, 1)
