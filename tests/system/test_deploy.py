"""The files of deploy/: they parse, and name the ports, paths and settings that the code has."""

import configparser
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from lakebed.server.config_files import read
from lakebed.server.settings import ServerSettings

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
CHART: Final = DEPLOY / "helm" / "lakebed"
PORT: Final = ServerSettings().listen.port
SECRET: Final = "0123456789abcdef"
PROBES: Final = {"/healthcheck", "/readiness", "/metrics"}


def settings_of(variables: dict[str, str], file: Path | None = None) -> ServerSettings:
    """Read and check the settings as a server would; what is asked for is filled in."""
    filled = {name: re.sub(r"\$\{[^}]*\}", SECRET, value) for name, value in variables.items()}
    settings = read(file, environment=filled)
    settings.check(file)
    return settings


@pytest.mark.parametrize(
    ("name", "database", "storage"),
    [("sqlite", "sqlite:////data/", "local"), ("postgresql", "postgresql://lakebed:", "s3")],
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
    published = [port for each in file["services"].values() for port in each.get("ports", ())]
    assert published == [f"127.0.0.1:{PORT}:{PORT}"]


def test_variables_of_compose_are_in_the_example() -> None:
    asked = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose" / "postgresql.yaml").read_text()))
    example = (DEPLOY / "compose" / "example.env").read_text()
    assert asked == set(re.findall(r"^(\w+)=$", example, re.MULTILINE))


def test_the_container() -> None:
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    assert re.findall(r"^FROM .*", text, re.MULTILINE)[1:] == ["FROM python:3.11-slim"]
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


def test_the_chart() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    deployment = (CHART / "templates" / "deployment.yaml").read_text()
    variables = dict.fromkeys(re.findall(r"name: (LAKEBED_SERVER__\w+)", deployment), SECRET)
    variables["LAKEBED_SERVER__DATABASE__URL"] = "postgresql://lakebed:secret@db:5432/lakebed"
    file = CHART / "values.yaml"
    given = read(None, environment=variables | _flat("LAKEBED_SERVER", values["config"]))
    given.check(file)
    assert given.listen.port == PORT
    used = set(re.findall(r"path: (/\w+)", "".join(map(Path.read_text, templates()))))
    assert used - {"/"} == PROBES
    grace = int(re.findall(r"terminationGracePeriodSeconds: (\d+)", deployment)[0])
    assert grace > ServerSettings().processes.shutdown_seconds


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


def _flat(prefix: str, section: dict[str, Any]) -> dict[str, str]:
    """Write settings as variables."""
    variables: dict[str, str] = {}
    for name, value in section.items():
        at = f"{prefix}__{name.upper()}"
        variables |= _flat(at, value) if isinstance(value, dict) else {at: str(value)}
    return variables
