"""What the Dockerfile copies runs from a read-only file system without privileges. The image itself is not built."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from tests import plugin
from tests.servers import Unavailable, required
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow]

DOCKERFILE = plugin.ROOT / "deploy" / "docker" / "Dockerfile"
#: In a mount namespace of its own, and without any capability: not even root may write.
READ_ONLY = """
mount --make-rprivate / && mount -t tmpfs tmpfs "$TMPDIR" && mount -o remount,bind,ro / &&
    exec setpriv --no-new-privs --bounding-set -all --inh-caps -all "$@"
"""


def copied(to: Path) -> Path:
    """The files that COPY puts into the image, and no others."""
    text = DOCKERFILE.read_text()
    ignored = (DOCKERFILE.parent / "Dockerfile.dockerignore").read_text()
    for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE):
        *sources, target = shlex.split(line)
        for source in sources:
            assert f"!{source}\n" in ignored, source
            path = to / (Path(source).name if target.endswith("/") else target.lstrip("/"))
            path.parent.mkdir(parents=True, exist_ok=True)
            if (plugin.ROOT / source).is_dir():
                shutil.copytree(plugin.ROOT / source, path)
            else:
                shutil.copy(plugin.ROOT / source, path)
    return to


def test_the_image_runs_read_only_and_refuses_sqlite(postgres_url: str, tmp_path: Path) -> None:
    with required():
        if os.getuid() != 0 or shutil.which("setpriv") is None or shutil.which("unshare") is None:
            raise Unavailable("a mount namespace needs root, unshare and setpriv (Debian: util-linux)")
    image = copied(tmp_path / "image")
    # The health check sends the first host. Kubernetes writes IPv6 without brackets.
    environment = {
        **plugin.generated_keys(),
        **dict(re.findall(r" (HOST)=(\S+)", DOCKERFILE.read_text())),
        "DATABASE_URL": postgres_url,
        "ALLOWED_HOSTS": "fd00:10:244::5 .callerid.example.com",
    }
    service = Service(tmp_path, {**environment, "PYTHONDONTWRITEBYTECODE": "1", "REDIS_URL": ""})
    service.manage("migrate", "--verbosity=0")
    (tmp_path / "tmp").mkdir()
    service.env["TMPDIR"] = str(tmp_path / "tmp")  # in the image: /tmp
    read_only = ["unshare", "--mount", "sh", "-c", READ_ONLY, "sh"]
    touch = [*read_only, "touch", str(image / "new")]
    writable = subprocess.run(touch, env=service.env, capture_output=True, check=False)
    with required():
        if b"Read-only file system" not in writable.stderr:
            raise Unavailable(f"no read-only mount namespace: {writable.stderr.decode()}")
    check = [*read_only, sys.executable, str(image / "healthcheck.py")]
    assert subprocess.run(check, env=service.env, capture_output=True, check=False).returncode != 0
    (command,) = re.findall(r"^CMD (.+)$", DOCKERFILE.read_text(), re.MULTILINE)
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*read_only, sys.executable, *json.loads(command)[1:]],
            cwd=image,
            env=service.env,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        while subprocess.run(check, env=service.env, capture_output=True, check=False).returncode:
            assert process.poll() is None, (tmp_path / "log").read_text()
        headers = {"Host": "callerid.example.com"}
        for path in ("readyz", "metrics", "docs", "schema"):
            assert requests.get(f"{service.url}/{path}", headers=headers, timeout=30).status_code == 200, path
        process.terminate()
        assert process.wait(30) == 0, (tmp_path / "log").read_text()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert "Traceback" not in (tmp_path / "log").read_text()

    (written,) = re.findall(r"^RUN (echo .+)$", DOCKERFILE.read_text(), re.MULTILINE)
    subprocess.run(written, shell=True, cwd=image, check=True)
    without = {name: value for name, value in service.env.items() if name != "DATABASE_URL"}
    refused = subprocess.run(
        [sys.executable, "manage.py", "prune"],
        cwd=image,
        env=without,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"{image} is a production service but DATABASE_URL is not set" in refused.stderr
    assert "`python manage.py COMMAND`" in refused.stderr
    assert not (tmp_path / "data").exists()
