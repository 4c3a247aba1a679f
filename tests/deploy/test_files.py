"""The files of deploy/ are valid for the tools that read them, and agree with each other and with the product."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from callerid_project import hosts, settings
from tests import plugin
from tests.deploy.installation import example_settings
from tests.servers import Unavailable, required

pytestmark = pytest.mark.once

DEPLOY = plugin.ROOT / "deploy"
SYSTEMD = DEPLOY / "systemd"
KUBERNETES = DEPLOY / "kubernetes"


def tool(name: str) -> str:
    with required():
        if (found := shutil.which(name)) is None:
            raise Unavailable(f"there is no {name} on PATH")
    return found


def objects() -> list[dict[str, Any]]:
    """The Kubernetes objects of all manifests."""
    files = sorted(set(KUBERNETES.glob("*.yaml")) - {KUBERNETES / "kustomization.yaml"})
    return [document for file in files for document in yaml.safe_load_all(file.read_text())]


def pods() -> list[dict[str, Any]]:
    found = []
    for each in objects():
        spec = each["spec"].get("jobTemplate", each)["spec"] if each.get("spec") else {}
        if "template" in spec:
            found.append(spec["template"]["spec"])
    return found


def test_shell_scripts_pass_shellcheck() -> None:
    scripts = [plugin.ROOT / "run", *(plugin.ROOT / ".ci").iterdir(), SYSTEMD / "callerid", *DEPLOY.rglob("*.sh")]
    scripts.append(DEPLOY / "supervisor" / "run")
    done = subprocess.run([tool("shellcheck"), *scripts], capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert all(os.access(script, os.X_OK) for script in scripts)


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    for unit in [*SYSTEMD.glob("*.service"), *SYSTEMD.glob("*.target"), *SYSTEMD.glob("*.timer")]:
        # The executable must exist; nothing else of the installation is looked at.
        (tmp_path / unit.name).write_text(unit.read_text().replace("/opt/callerid/run", str(plugin.ROOT / "run")))
    units = [str(path).replace("@.", "@8001.") for path in sorted(tmp_path.iterdir())]
    for template in tmp_path.glob("*@.*"):
        shutil.copy(template, str(template).replace("@.", "@8001."))
    units.append(str(tmp_path / "callerid@8000.service"))
    shutil.copy(tmp_path / "callerid@.service", units[-1])
    shutil.copytree(SYSTEMD / "callerid@8000.service.d", f"{units[-1]}.d")
    command = [tool("systemd-analyze"), "verify", "--man=no", *units]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_each_timer_starts_a_command_that_exists() -> None:
    timers = "".join(timer.read_text() for timer in SYSTEMD.glob("*.timer"))
    units = set(re.findall(r"^Unit=callerid-manage@(\w+)\.service$", timers, re.MULTILINE))
    assert units == {"prune", "send_notices", "refresh_data", "sync_contacts", "audit_credits"}
    commands = [container.get("command", []) for pod in pods() for container in pod["containers"]]
    scheduled = {command[-1] for command in commands if "manage.py" in command}
    assert scheduled == units
    crontab = (DEPLOY / "supervisor" / "crontab").read_text()
    lines = re.findall(r"^#?(?:[\d*]+ ){5}callerid (?:flock -n \S+ )?callerid (\w+)$", crontab, re.MULTILINE)
    assert set(lines) == units
    found = {path.stem for path in plugin.ROOT.glob("*/management/commands/*.py")}
    of_addons = {path.stem for path in plugin.ROOT.glob("contrib/*/management/commands/*.py")}
    assert units <= found | of_addons or not of_addons


def test_the_example_environment_has_only_known_settings() -> None:
    text = (SYSTEMD / "callerid.env.example").read_text()
    names = set(re.findall(r"^#?([A-Z][A-Z_]+)=", text, re.MULTILINE))
    book = {f"ADDRESS_BOOK_OFFICE_{key}" for key in ("URL", "USER", "PASSWORD")}
    unknown = names - plugin.our_settings() - {"EMAIL_URL"} - book
    assert not unknown or not list(plugin.ROOT.glob("contrib/*/conf.py"))  # it names settings of add-ons too
    assert set(plugin.KEYS) <= names
    assert not set(plugin.KEYS) & set(example_settings())  # no secrets
    assert settings.HOST == "127.0.0.1"  # behind nginx on the same host, unless it is set


def test_compose_accepts_the_file_and_needs_all_secrets(tmp_path: Path) -> None:
    example = (DEPLOY / "docker" / ".env.example").read_text()
    file = tmp_path / "env"
    command = [tool("docker-compose"), f"--file={DEPLOY / 'docker' / 'compose.yaml'}", f"--env-file={file}", "config"]
    clean = {"PATH": os.environ["PATH"]}
    file.write_text(example)
    refused = subprocess.run(command, env=clean, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "set it in .env" in refused.stderr
    file.write_text(re.sub("=$", "=secret", example, flags=re.MULTILINE))
    done = subprocess.run(command, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    services = yaml.safe_load(done.stdout)["services"]
    assert {"callerid", "migrate", "grants", "postgres", "redis", "nginx"} <= set(services)
    exposed = {name for name, service in services.items() if service.get("ports")}
    assert exposed <= {"nginx", "grafana"}
    for name in ("callerid", "migrate"):
        assert services[name]["read_only"]
    # What compose.yaml replaces in the shipped nginx configuration stands there.
    conf = (DEPLOY / "nginx" / "callerid.conf").read_text()
    script = services["nginx"]["command"][2]
    patterns = [found[1] for found in re.findall(r"-e ['\"]s?([/|])(.+?)\1", script)]
    assert len(patterns) == script.count(" -e ")
    for pattern in patterns:
        assert re.search(pattern, conf), pattern


def test_compose_keeps_the_data_directory_of_a_killed_instance() -> None:
    configuration = yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text())
    service = configuration["services"]["callerid"]
    data = service["environment"]["CALLERID_DATA_DIR"]
    (source,) = [volume.split(":")[0] for volume in service["volumes"] if volume.split(":")[1] == data]
    assert source in configuration["volumes"]
    # Docker gives a new named volume the owner and the mode of the image's directory.
    dockerfile = (DEPLOY / "docker" / "Dockerfile").read_text()
    assert f"RUN install --directory --owner=callerid --group=callerid --mode=0700 {data}\n" in dockerfile


def test_all_manifests_are_deployed_and_confined() -> None:
    listed = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["resources"]
    files = {file.name for file in KUBERNETES.glob("*.yaml")}
    assert files == {*listed, "kustomization.yaml", "migration.yaml"}
    kinds = {each["kind"] for each in objects()}
    assert kinds == {"CronJob", "Deployment", "Job", "Namespace", "PodDisruptionBudget", "Service"}
    assert len(pods()) == 8
    for pod in pods():
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert {"requests", "limits"} <= set(container["resources"])


def test_compose_mounts_what_exists_and_scrapes_each_instance() -> None:
    services = yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text())["services"]
    mounted = {volume.split(":")[0] for service in services.values() for volume in service.get("volumes", [])}
    files = {source for source in mounted if source.startswith(".")} - {"./certs"}
    assert len(files) > 5
    assert [source for source in files if not (DEPLOY / "docker" / source).exists()] == []
    assert services["redis"]["command"] == ["redis-server", "/redis.conf"]  # tests/core/test_redis_memory.py runs it
    assert services["redis"]["volumes"] == ["../redis/redis.conf:/redis.conf:ro"]
    (scrape,) = yaml.safe_load((DEPLOY / "docker" / "prometheus.yml").read_text())["scrape_configs"]
    (discovery,) = scrape["dns_sd_configs"]
    instances = {name: service for name, service in services.items() if "SERVE" in service.get("environment", {})}
    assert {name: each["environment"]["SERVE"] for name, each in instances.items()} == {
        "callerid": "search",
        "console": "console",
    }
    assert discovery["names"] == [*instances]
    assert services["callerid"]["scale"] == 2
    assert services["console"]["environment"]["SEARCH_URL"] == f"http://callerid:{discovery['port']}"
    image = (DEPLOY / "docker" / "Dockerfile").read_text()
    assert re.search(f"^EXPOSE {discovery['port']}$", image, re.MULTILINE)
    # Each container accepts its own address, which Prometheus sends, and runs what the image does.
    runs, *arguments = json.loads(re.findall("^CMD (.+)$", image, re.MULTILINE)[-1])
    command = f'ALLOWED_HOSTS="$$ALLOWED_HOSTS,$$(hostname -i)" exec {runs} {" ".join(arguments)}'
    assert [each["command"][-1] for each in instances.values()] == [command] * 2


def deployments() -> list[Any]:
    """For searches, and for the console."""
    found = [each for each in objects() if each["kind"] == "Deployment"]
    return sorted(found, key=lambda each: str(each["metadata"]["name"]))


def test_the_pods_of_the_console_differ_in_what_they_answer() -> None:
    search, console = deployments()
    specs = [each["spec"]["template"]["spec"] for each in (search, console)]
    variables = [{each["name"]: each.get("value") for each in spec["containers"][0].pop("env")} for spec in specs]
    assert variables[0].pop("SERVE") == "search"
    assert variables[1].pop("SERVE") == "console"
    assert variables[1].pop("SEARCH_URL") == "http://callerid"
    assert variables[0] == variables[1]
    for spec, deployment in zip(specs, (search, console), strict=True):
        labels = deployment["spec"]["selector"]["matchLabels"]
        assert deployment["spec"]["template"]["metadata"]["labels"] == labels
        assert spec["topologySpreadConstraints"][0].pop("labelSelector") == {"matchLabels": labels}
        spec["containers"][0]["resources"]["requests"].pop("cpu")
    assert specs[0] == specs[1]
    selected = {each["metadata"]["name"]: each["spec"]["selector"] for each in objects() if each["kind"] == "Service"}
    assert selected == {each["metadata"]["name"]: each["spec"]["selector"]["matchLabels"] for each in deployments()}


def test_probes_reach_a_pod_by_the_address_of_each_family() -> None:
    deployment, _ = deployments()
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    names = [each["name"] for each in container["env"]]
    variables = {each["name"]: each for each in container["env"]}
    assert variables["POD_IPS"]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIPs"
    assert names.index("POD_IPS") < names.index("ALLOWED_HOSTS")  # or it is not expanded
    value = variables["ALLOWED_HOSTS"]["value"].replace("$(POD_IPS)", "fd00:10:244::5,10.244.1.5")
    assert hosts.read(value)[1:] == ["[fd00:10:244::5]", "10.244.1.5"]
    assert " HOST=:: " in (DEPLOY / "docker" / "Dockerfile").read_text()


def test_a_pod_stops_within_its_grace_period() -> None:
    deployment, _ = deployments()
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    command, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
    assert command == "sleep"
    assert pod["terminationGracePeriodSeconds"] > int(seconds) + settings.STOP_TIMEOUT_S
    unit = (SYSTEMD / "callerid@.service").read_text()
    stop_s = re.search(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert stop_s is not None
    assert int(stop_s[1]) > settings.STOP_TIMEOUT_S
