"""Settings of the client: the server and the credentials.

Sources, later ones win: lakectl's file, lakectl's environment variables, Lakebed's environment
variables, the flag. So the settings of lakectl work for Lakebed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from lakebed.clients.http.errors import ClientSettingsError

_API_PATH = "/api/v1"


@dataclass(frozen=True, slots=True)
class _Setting:
    """A setting and its name in each source."""

    title: str
    file_key: tuple[str, str]
    lakectl_variable: str
    variable: str


_ENDPOINT = _Setting(
    "the endpoint", ("server", "endpoint_url"), "LAKECTL_SERVER_ENDPOINT_URL", "LAKEBED_ENDPOINT"
)
_ACCESS_KEY_ID = _Setting(
    "the access key id",
    ("credentials", "access_key_id"),
    "LAKECTL_CREDENTIALS_ACCESS_KEY_ID",
    "LAKEBED_ACCESS_KEY_ID",
)
_SECRET_ACCESS_KEY = _Setting(
    "the secret access key",
    ("credentials", "secret_access_key"),
    "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY",
    "LAKEBED_SECRET_ACCESS_KEY",
)


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Server and credentials."""

    endpoint: str
    """Without `/api/v1` and trailing slash."""
    access_key_id: str
    secret_access_key: str = field(repr=False)


def load_settings(
    *, environ: Mapping[str, str], config_file: Path | None, endpoint: str | None
) -> ClientSettings:
    """Load the effective settings.

    Args:
        environ: The environment variables.
        config_file: A file in lakectl's format, which must exist; None means `~/.lakectl.yaml`, if
            that exists.
        endpoint: The value of the flag.
    """
    content = _content(environ, config_file)
    found = {
        setting: _find(setting, environ, content)
        for setting in (_ENDPOINT, _ACCESS_KEY_ID, _SECRET_ACCESS_KEY)
    }
    found[_ENDPOINT] = endpoint or found[_ENDPOINT]
    _refuse_missing([setting for setting, value in found.items() if not value])
    return ClientSettings(
        endpoint=normal_endpoint(found[_ENDPOINT] or ""),
        access_key_id=found[_ACCESS_KEY_ID] or "",
        secret_access_key=found[_SECRET_ACCESS_KEY] or "",
    )


def load_endpoint(
    *, environ: Mapping[str, str], config_file: Path | None, endpoint: str | None
) -> str:
    """Load the endpoint alone, for use without credentials; see `load_settings`."""
    endpoint = endpoint or _find(_ENDPOINT, environ, _content(environ, config_file))
    _refuse_missing([] if endpoint else [_ENDPOINT])
    return normal_endpoint(endpoint or "")


def _find(
    setting: _Setting, environ: Mapping[str, str], content: Mapping[str, object]
) -> str | None:
    return (
        environ.get(setting.variable)
        or environ.get(setting.lakectl_variable)
        or _from_file(content, setting)
    )


def _refuse_missing(missing: list[_Setting]) -> None:
    if not missing:
        return
    titles = _listed([setting.title for setting in missing])
    variables = _listed([setting.variable for setting in missing])
    keys = _listed([".".join(setting.file_key) for setting in missing])
    verb = "is" if len(missing) == 1 else "are"
    raise ClientSettingsError(
        f"{titles} {verb} not set: set {variables}, or {keys} in ~/.lakectl.yaml"
        + (", or pass --endpoint" if _ENDPOINT in missing else "")
    )


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def normal_endpoint(text: str) -> str:
    """Normalize an endpoint; the path of the API is optional."""
    mistake = ClientSettingsError(f"{text!r} is not an endpoint such as http://127.0.0.1:8000")
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise mistake from None
    if parts.scheme not in {"http", "https"} or not host or parts.query or parts.fragment:
        raise mistake
    return text.rstrip("/").removesuffix(_API_PATH).rstrip("/")


def usual_file(environ: Mapping[str, str]) -> Path | None:
    """Return the default settings file."""
    home = environ.get("HOME")
    return Path(home, ".lakectl.yaml") if home else None


def _content(environ: Mapping[str, str], config_file: Path | None) -> Mapping[str, object]:
    """Read the settings file, or return nothing if the default file does not exist."""
    if config_file is None:
        config_file = usual_file(environ)
        if config_file is None or not config_file.exists():
            return {}
    return read_file(config_file)


def read_file(config_file: Path) -> Mapping[str, object]:
    """Read a file in lakectl's format."""
    try:
        text = config_file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ClientSettingsError(f"cannot read the settings in {config_file}: {reason}") from None
    return _parse(text, config_file)


def _parse(text: str, config_file: Path) -> Mapping[str, object]:
    import yaml  # slow, and rarely needed: most commands use environment variables

    try:
        content = yaml.safe_load(text)
    except Exception as error:  # noqa: BLE001 - odd values make the library fail in many ways
        # Quote the line number only: the text may be a secret.
        position = getattr(error, "problem_mark", None)
        place = f" (line {position.line + 1})" if position else ""
        raise ClientSettingsError(f"{config_file} is not YAML{place}") from None
    if content is None:
        return {}
    for value in _sections(content):
        if not isinstance(value, dict):
            raise ClientSettingsError(
                f"{config_file} is not in lakectl's format: expected the sections 'server' and"
                " 'credentials'"
            )
    return dict(content)


def _sections(content: object) -> Iterator[object]:
    yield content
    if isinstance(content, dict):
        yield from (content[name] or {} for name in ("server", "credentials") if name in content)


def _from_file(content: Mapping[str, object], setting: _Setting) -> str | None:
    section, key = setting.file_key
    found = content.get(section)
    value = found.get(key) if isinstance(found, dict) else None
    if value is not None and not isinstance(value, str):
        # YAML parsed a number or a date: the original text is lost.
        raise ClientSettingsError(f"{section}.{key} in the settings is not text: quote it")
    return value
