"""The files of ``deploy/`` run the commands of docker-compose.yml, with existing settings."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from mcpsite.environment import REMEDIES

ROOT = Path(__file__).resolve().parents[2]
UNITS = sorted((ROOT / "deploy" / "systemd").glob("mcp*.service"))
MANIFESTS = sorted((ROOT / "deploy" / "kubernetes").rglob("*.yaml"))
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
DOCUMENTS = [document for path in MANIFESTS for document in yaml.safe_load_all(path.read_text())]
PODS = {
    each["metadata"]["name"]: each["spec"]["template"]
    for each in DOCUMENTS
    if "template" in each.get("spec", {})
}
# Read by Celery and by logging; everything else is a setting.
OF_PROCESSES = {"REMAP_SIGTERM", "MCP_PROCESS"}


def container(name: str) -> dict[str, Any]:
    """Return the only container of a pod."""
    (found,) = PODS[name]["spec"]["containers"]
    return dict(found)


def unit(name: str) -> str:
    return (ROOT / "deploy" / "systemd" / name).read_text()


@pytest.mark.parametrize(
    ("pod", "service"),
    [("mcp-web", "web-1"), ("mcp-worker", "worker"), ("mcp-beat", "beat"), ("mcp-migrate", "migrate")],
)
def test_pod_runs_the_command_of_its_service(pod: str, service: str) -> None:
    assert container(pod)["command"] == COMPOSE[service]["command"]


@pytest.mark.parametrize(
    ("name", "service"),
    [
        ("mcp-web@.service", "web-1"),
        ("mcp-worker.service", "worker"),
        ("mcp-beat.service", "beat"),
        ("mcp-upstreams.service", "upstreams"),
    ],
)
def test_unit_runs_the_command_of_its_service(name: str, service: str) -> None:
    (line,) = re.findall(r"^ExecStart=(.*)$", unit(name), re.MULTILINE)
    python, *words = shlex.split(line.replace(" --hostname worker@%%h", ""))
    assert python == "/srv/mcp/.venv/bin/python"
    assert ["python", *words] == COMPOSE[service]["command"]


def test_every_given_setting_exists() -> None:
    (config,) = (each["data"] for each in DOCUMENTS if each["kind"] == "ConfigMap")
    given = {*config, *re.findall(r"^(\w+)=", unit("environment"), re.MULTILINE)}
    given |= {variable["name"] for name in PODS for variable in container(name).get("env", ())}
    for path in UNITS:
        given |= set(re.findall(r"(?:^Environment=| )([A-Z_]{2,})=", path.read_text(), re.MULTILINE))
    assert given - OF_PROCESSES <= set(REMEDIES)


def test_pods_run_with_minimal_privileges() -> None:
    for name, pod in PODS.items():
        assert pod["spec"]["securityContext"]["runAsNonRoot"], name
        assert pod["spec"]["automountServiceAccountToken"] is False, name
        assert container(name)["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_web_pod_probes_healthz_and_readyz() -> None:
    web = container("mcp-web")
    assert web["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert web["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_service_selects_the_web_pods() -> None:
    (service,) = (each["spec"] for each in DOCUMENTS if each["kind"] == "Service")
    labels = [
        name for name, pod in PODS.items() if service["selector"].items() <= pod["metadata"]["labels"].items()
    ]
    assert labels == ["mcp-web"]


def test_kustomizations_name_one_image_and_every_file() -> None:
    made = {
        path.parent: yaml.safe_load(path.read_text())
        for path in MANIFESTS
        if path.name == "kustomization.yaml"
    }
    assert len({str(each["images"]) for each in made.values()}) == 1
    named = {folder / name for folder, each in made.items() for name in each["resources"]}
    assert named == {path for path in MANIFESTS if path.name != "kustomization.yaml"}
