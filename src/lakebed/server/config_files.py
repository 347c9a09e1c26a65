"""Sources of settings: a YAML file, the environment and flags, in ascending precedence.

Every source is read into one flat map from a dotted key, like ``listen.port``, to the value and its
origin, so that errors can name the origin.
"""

import difflib
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Final, get_args, get_origin, get_type_hints

import msgspec
import yaml

from lakebed.base.invalid import expected
from lakebed.server.settings import ServerSettings, SettingsError

ENVIRONMENT_PREFIX: Final = "LAKEBED_SERVER__"

# Truncate: a few lines of YAML with aliases can expand to gigabytes.
_SHOWN: Final = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 200


def load(
    file: Path | None = None,
    *,
    environment: Mapping[str, str],
    flags: Mapping[str, object] | None = None,
) -> ServerSettings:
    """Return the checked settings of all sources.

    Args:
        file: a YAML file with the sections and keys of `ServerSettings`.
        environment: ``LAKEBED_SERVER__LISTEN__PORT=8001`` sets ``listen.port``.
        flags: command line flags by dotted key; they override the other sources.

    Raises:
        SettingsError: The file cannot be read, a key is unknown, a value is of the wrong type, or
            settings contradict each other. The message lists all problems.
    """
    settings = read(file, environment=environment, flags=flags)
    settings.check(file)
    return settings


def read(
    file: Path | None = None,
    *,
    environment: Mapping[str, str],
    flags: Mapping[str, object] | None = None,
) -> ServerSettings:
    """Return the settings like `load`, without the checks against each other."""
    sources = _Sources()
    if file is not None:
        sources.add_file(file)
    sources.add_environment(environment)
    sources.add_flags(flags or {})
    return sources.settings()


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A key with a value, not a section."""

    type: object
    secret: bool


@dataclass(frozen=True, slots=True)
class _Given:
    value: object
    origin: str
    is_text: bool
    """Whether the value is a text that may have to be parsed as a number."""


class _Sources:
    def __init__(self) -> None:
        self._leaves = dict(_leaves(ServerSettings))
        # A YAML section may contain itself: stop at the depth of the deepest setting.
        self._depth = max(key.count(".") for key in self._leaves)
        self._given: dict[str, _Given] = {}
        self._problems: list[str] = []

    def add_file(self, file: Path) -> None:
        try:
            content = yaml.safe_load(file.read_text())
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise SettingsError([f"cannot read {file}: {reason}"]) from error
        except Exception as error:  # noqa: BLE001 - odd values make the library fail in many ways
            # Omit the parser's message, which quotes the line: it may contain a secret.
            position = getattr(error, "problem_mark", None)
            where = f", line {position.line + 1}" if position else ""
            raise SettingsError([f"{file}{where}: not valid YAML"]) from None
        if not isinstance(content, dict | None):
            raise SettingsError([f"{file}: expected sections like `listen:` with settings in them"])
        self._add_section("", content or {}, str(file))

    def add_environment(self, environment: Mapping[str, str]) -> None:
        variables = {
            f"{ENVIRONMENT_PREFIX}{key.replace('.', '__').upper()}": key for key in self._leaves
        }
        for name, value in environment.items():
            if not name.startswith(ENVIRONMENT_PREFIX):
                continue
            if name in variables:
                self._given[variables[name]] = _Given(value, f"variable {name}", is_text=True)
            else:
                hint = _hint(name, variables, separator="__")
                self._problems.append(f"unknown variable {name}{hint}")

    def add_flags(self, flags: Mapping[str, object]) -> None:
        for key, value in flags.items():
            assert key in self._leaves, key
            self._given[key] = _Given(value, "command line", is_text=False)

    def settings(self) -> ServerSettings:
        settings = self._build(ServerSettings, "")
        if self._problems:
            raise SettingsError(self._problems)
        assert isinstance(settings, ServerSettings)
        return settings

    def _add_section(self, prefix: str, content: Mapping[object, object], origin: str) -> None:
        for name, value in content.items():
            key = f"{prefix}{name}"
            is_section = any(leaf.startswith(f"{key}.") for leaf in self._leaves)
            if key in self._leaves:
                self._given[key] = _Given(value, origin, is_text=False)
            elif isinstance(value, dict) and value and key.count(".") < self._depth:
                self._add_section(f"{key}.", value, origin)
            elif not is_section:
                hint = _hint(key, self._leaves, separator=".")
                self._problems.append(f"{origin}: unknown setting {key}{hint}")
            elif value:
                self._problems.append(f"{origin}: {key} is a section: settings belong below it")

    def _build(self, section: type, prefix: str) -> object:
        """Create the object of a section from the given values and the defaults."""
        types = get_type_hints(section)
        values: dict[str, object] = {}
        for each in fields(section):
            key = f"{prefix}{each.name}"
            inner = _section_in(types[each.name])
            if inner is not None and self._has(f"{key}."):
                values[each.name] = self._build(inner, f"{key}.")
            elif key in self._given:
                values[each.name] = self._convert(key)
            elif each.default is MISSING and each.default_factory is MISSING:
                self._problems.append(f"{key} is missing")
                values[each.name] = None
        return section(**values)

    def _has(self, prefix: str) -> bool:
        return any(key.startswith(prefix) for key in self._given)

    def _convert(self, key: str) -> object:
        given, leaf = self._given[key], self._leaves[key]
        value = given.value
        if given.is_text and get_origin(leaf.type) is tuple:
            value = [part.strip() for part in str(value).split(",") if part.strip()]
        try:
            return msgspec.convert(
                value, leaf.type, strict=not given.is_text, dec_hook=_decode_path
            )
        except msgspec.ValidationError:
            shown = "" if leaf.secret else f", not {_SHOWN.repr(given.value)}"
            self._problems.append(
                f"{key}: expected {expected(leaf.type)}{shown} (from {given.origin})"
            )
            return None


def _leaves(section: type, prefix: str = "") -> Iterator[tuple[str, _Leaf]]:
    types = get_type_hints(section)
    for each in fields(section):
        inner = _section_in(types[each.name])
        if inner is None:
            yield f"{prefix}{each.name}", _Leaf(types[each.name], secret=not each.repr)
        else:
            yield from _leaves(inner, f"{prefix}{each.name}.")


def _section_in(annotation: object) -> type | None:
    """Return the section class of a field, or None if the field is a value."""
    for candidate in get_args(annotation) or (annotation,):
        if isinstance(candidate, type) and is_dataclass(candidate):
            return candidate
    return None


def _decode_path(target: type, value: object) -> object:
    if target is Path and isinstance(value, str | Path):
        return Path(value)
    raise TypeError


def _hint(name: str, known: Iterable[str], *, separator: str) -> str:
    """Suggest a similar key, or the same key of another section."""
    known = list(known)
    ending = separator + name.rpartition(separator)[2]
    alike = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    alike = alike or [each for each in known if each.endswith(ending)]
    alike = alike or difflib.get_close_matches(name, known, n=1)
    return f": did you mean {alike[0]}?" if alike else ""
