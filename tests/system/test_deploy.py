"""The files of deploy/: they parse, and name the ports, paths and settings that the code has."""

import configparser
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from lakebed.server.config_files import read
from lakebed.server.http.metrics import MetricsReaders
from lakebed.server.http.request import TrustedProxies
from lakebed.server.settings import ServerSettings

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
CHART: Final = DEPLOY / "helm" / "lakebed"
PORT: Final = ServerSettings().listen.port
SECRET: Final = "p@ss/w?rd#%0123456789"
HELM: Final = DEPLOY.parent / ".envs" / "deploy" / "bin" / "helm"
DIGEST: Final = re.compile(r".+:\d+(\.\d+)+(-slim)?@sha256:[0-9a-f]{64}")
PROBES: Final = {"/healthcheck", "/readiness", "/metrics"}


def settings_of(variables: dict[str, str], file: Path | None = None) -> ServerSettings:
    """Read and check the settings as a server would; what is asked for is filled in."""
    filled = {name: re.sub(r"\$\{[^}]*\}", SECRET, value) for name, value in variables.items()}
    assert SECRET not in filled.get("LAKEBED_SERVER__DATABASE__URL", "")
    settings = read(file, environment=filled)
    settings.check(file)
    return settings


@pytest.mark.parametrize(
    ("name", "database", "storage"),
    [("sqlite", "sqlite:////data/", "local"), ("postgresql", "postgresql://lakebed@", "s3")],
)
def test_compose_files(name: str, database: str, storage: str) -> None:
    file = yaml.safe_load((DEPLOY / "compose" / f"{name}.yaml").read_text())
    servers = [each for each in file["services"].values() if each["image"] == "lakebed"]
    assert servers
    for server in servers:
        context = (DEPLOY / "compose" / server["build"]["context"]).resolve()
        assert (context / server["build"]["dockerfile"]).is_file()
        assert server["read_only"]
        assert server["cap_drop"] == ["ALL"]
        settings = settings_of(server["environment"])
        assert settings.database.url.startswith(database)
        assert settings.blockstore.type == storage
    others = [each["image"] for each in file["services"].values() if each["image"] != "lakebed"]
    assert [image for image in others if not DIGEST.fullmatch(image)] == []
    published = [port for each in file["services"].values() for port in each.get("ports", ())]
    assert published == [f"127.0.0.1:{PORT}:{PORT}"]


def test_variables_of_compose_are_in_the_example() -> None:
    asked = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose" / "postgresql.yaml").read_text()))
    example = (DEPLOY / "compose" / "example.env").read_text()
    assert asked == set(re.findall(r"^(\w+)=$", example, re.MULTILINE))


def test_the_proxy_of_compose_asks_for_readiness_and_retries() -> None:
    file = yaml.safe_load((DEPLOY / "compose" / "postgresql.yaml").read_text())
    proxy = file["services"]["proxy"]
    assert proxy["volumes"] == ["./Caddyfile:/etc/caddy/Caddyfile:ro"]
    text = (DEPLOY / "compose" / "Caddyfile").read_text()
    assert f"reverse_proxy {' '.join(f'{name}:{PORT}' for name in proxy['depends_on'])} {{" in text
    assert {"health_uri /readiness", "lb_try_duration 10s"} <= set(map(str.strip, text.split("\n")))


def test_the_container() -> None:
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    first, second = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert first == second
    assert DIGEST.fullmatch(first)
    for install in re.findall(r"pip (?:install|wheel) [^&\n]*", text):
        assert re.search("--require-hashes|--no-index|--no-build-isolation", install), install
    assert f"EXPOSE {PORT}" in text
    assert f"http://127.0.0.1:{PORT}/healthcheck" in text
    (user,) = re.findall(r"^USER (\d+):", text, re.MULTILINE)
    assert int(user) > 0
    variables = dict(re.findall(r"(LAKEBED_SERVER__\w+)=(\S+)", text))
    settings = settings_of(variables | {"LAKEBED_SERVER__AUTH__SECRET_KEY": SECRET})
    assert settings.listen.host == "0.0.0.0"
    ignored = (DEPLOY.parent / ".dockerignore").read_text().splitlines()
    copied = re.findall(r"^COPY (?!--)(.*) \S+$", text, re.MULTILINE)
    for source in (name for line in copied for name in line.split()):
        assert f"!{source}" in ignored
        assert (DEPLOY.parent / source).exists()


def test_the_chart(tmp_path: Path) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    deployment = (CHART / "templates" / "deployment.yaml").read_text()
    variables = dict.fromkeys(re.findall(r"name: (LAKEBED_SERVER__\w+)", deployment), SECRET)
    variables["LAKEBED_SERVER__DATABASE__URL"] = "postgresql://lakebed:secret@db:5432/lakebed"
    file = tmp_path / "lakebed.yaml"
    file.write_text(yaml.safe_dump(values["config"]))
    assert settings_of(variables, file).listen.port == PORT
    used = set(re.findall(r"path: (/\w+)", "".join(map(Path.read_text, templates()))))
    assert used - {"/"} == PROBES
    grace = int(re.findall(r"terminationGracePeriodSeconds: (\d+)", deployment)[0])
    assert grace > ServerSettings().processes.shutdown_seconds


def render(tmp_path: Path, **values: Any) -> subprocess.CompletedProcess[str]:
    """Render the chart by helm (``make .envs/deploy/bin/helm``)."""
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    command = [str(HELM), "template", "lake", str(CHART), "--values", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def rendered(tmp_path: Path, **values: Any) -> dict[str, Any]:
    """Return the objects of the chart by kind."""
    run = render(tmp_path, **values)
    assert run.returncode == 0, run.stderr
    return {each["kind"]: each for each in yaml.safe_load_all(run.stdout) if each}


INGRESS: Final = {
    "ingress": {"enabled": True, "annotations": {"a": "ingress"}},
    "config": {"listen": {"trusted_proxies": ["10.244.3.0/24"]}},
}


@pytest.mark.extended
def test_metrics_are_not_for_clients_of_the_ingress(tmp_path: Path) -> None:
    found = rendered(tmp_path, **INGRESS)
    file = tmp_path / "lakebed.yaml"
    file.write_text(found["ConfigMap"]["data"]["lakebed.yaml"])
    settings = read(file, environment={})
    proxies = TrustedProxies(settings.listen.trusted_proxies)
    readers = MetricsReaders(settings.metrics)
    request = {"REMOTE_ADDR": "10.244.3.7", "HTTP_X_FORWARDED_FOR": "203.0.113.5"}
    assert not readers.may_read(proxies.client_of(request), None)
    assert readers.may_read(proxies.client_of({"REMOTE_ADDR": "10.244.9.9"}), None)


@pytest.mark.extended
def test_an_ingress_needs_trusted_proxies(tmp_path: Path) -> None:
    run = render(tmp_path, ingress={"enabled": True})
    assert run.returncode == 1
    assert "ingress.enabled needs config.listen.trusted_proxies" in run.stderr


@pytest.mark.extended
def test_the_chart_passes_values_on(tmp_path: Path) -> None:
    volume = {"name": "ca", "configMap": {"name": "database-ca"}}
    mount = {"name": "ca", "mountPath": "/etc/database"}
    peers = [{"podSelector": {"matchLabels": {"role": "client"}}}]
    found = rendered(
        tmp_path,
        **INGRESS,
        image={"pullSecrets": [{"name": "registry"}]},
        podAnnotations={"a": "pod"},
        service={"annotations": {"a": "service"}},
        extraVolumes=[volume],
        extraVolumeMounts=[mount],
        networkPolicy={"enabled": True, "from": peers},
    )
    template = found["Deployment"]["spec"]["template"]
    pod = template["spec"]
    assert template["metadata"]["annotations"]["a"] == "pod"
    assert found["Service"]["metadata"]["annotations"] == {"a": "service"}
    assert found["Ingress"]["metadata"]["annotations"]["a"] == "ingress"
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert volume in pod["volumes"]
    assert mount in pod["containers"][0]["volumeMounts"]
    labels = template["metadata"]["labels"]
    keys = ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
    assert [each["topologyKey"] for each in pod["topologySpreadConstraints"]] == keys
    for each in pod["topologySpreadConstraints"]:
        assert each["labelSelector"]["matchLabels"] == labels
    policy = found["NetworkPolicy"]["spec"]
    assert policy["podSelector"]["matchLabels"] == labels
    assert policy["ingress"] == [{"ports": [{"port": "http"}], "from": peers}]


@pytest.mark.extended
def test_new_settings_restart_the_servers(tmp_path: Path) -> None:
    sums = [
        rendered(tmp_path, **values)["Deployment"]["spec"]["template"]["metadata"]["annotations"]
        for values in ({}, {"config": {"logging": {"format": "text"}}})
    ]
    assert sums[0].keys() == sums[1].keys() == {"checksum/config", "checksum/secret"}
    assert sums[0]["checksum/config"] != sums[1]["checksum/config"]


def test_templates_use_values_that_there_are() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for file in templates():
        for path in re.findall(r"\.Values((?:\.\w+)+)", file.read_text()):
            found: Any = values
            for name in path.strip(".").split("."):
                assert name in found, f"{file.name} uses .Values{path}"
                found = found[name]


def test_the_systemd_unit() -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(DEPLOY / "systemd" / "lakebed.service")
    service = unit["Service"]
    program, command, option, config = service["ExecStart"].split()
    assert (Path(program).name, command, option) == ("lakebed", "run", "--config")
    assert config == "%d/lakebed.yaml"
    assert int(service["TimeoutStopSec"]) > ServerSettings().processes.shutdown_seconds
    name, _, _ = service["Environment"].partition("=")
    assert name == "LAKEBED_SERVER__AUTH__SECRET_KEY_FILE"
    variables = {"LAKEBED_SERVER__AUTH__SECRET_KEY": SECRET}
    settings = settings_of(variables, DEPLOY / "systemd" / "lakebed.yaml")
    kept = Path("/var/lib") / service["StateDirectory"]
    assert settings.database.url.startswith(f"sqlite:///{kept}/")
    assert settings.blockstore.local is not None
    assert settings.blockstore.local.root.is_relative_to(kept)


def test_the_systemd_unit_can_read_what_is_installed_for_it() -> None:
    """Its user exists only while it runs: systemd reads private files, and hands them over."""
    unit = (DEPLOY / "systemd" / "lakebed.service").read_text()
    assert "DynamicUser=yes" in unit
    loaded = dict(re.findall(r"^LoadCredential=(.+):(.+)$", unit, re.MULTILINE))
    guide = (DEPLOY.parent / "docs" / "deploy.md").read_text()
    installed = re.findall(r"install (?:-D )?-m (\d+) \S+ (/etc/lakebed/\S+)", guide)
    assert [path for _, path in installed] == [
        "/etc/lakebed/lakebed.yaml",
        "/etc/lakebed/secret.key",
    ]
    for mode, path in installed:
        is_private = not int(mode, 8) & 0o004
        assert is_private
        assert path in loaded.values()
    for used in re.findall(r"%d/(\S+)", unit):
        assert used in loaded
    others = [line for line in unit.splitlines() if not line.startswith(("#", "LoadCredential="))]
    assert not [line for line in others if "/etc/lakebed/" in line]


@pytest.mark.parametrize("name", ["nginx.conf", "Caddyfile"])
def test_proxies_lead_to_the_port(name: str) -> None:
    text = (DEPLOY / "proxies" / name).read_text()
    assert f"127.0.0.1:{PORT}" in text


def templates() -> list[Path]:
    return sorted((CHART / "templates").glob("*.yaml"))
