"""Options shared by many commands."""

import inspect
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar

import typer

from lakebed.clients.cli.errors import CommandError, InvalidArguments
from lakebed.clients.cli.uris import set_base_uri

KindT = TypeVar("KindT")

EndpointOption = Annotated[
    str | None,
    typer.Option(metavar="URL", help="URL of the server, for example http://127.0.0.1:8000"),
]
ClientConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Settings file in lakectl's format  [default: ~/.lakectl.yaml]",
    ),
]
ServerConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Settings file of the server, in YAML", show_default=False),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON")]
BaseUriOption = Annotated[
    str | None,
    typer.Option(
        "--base-uri",
        metavar="URI",
        help="Prefix for relative URIs, for example lakefs://my-repo/main",
        # Eager, as it affects the parsing of arguments.
        is_eager=True,
        callback=set_base_uri,
    ),
]
NoColorOption = Annotated[bool, typer.Option("--no-color", help="Disable colours")]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Log requests and responses, with secrets masked")
]
LogLevel = Literal["debug", "info", "warning", "error", "none"]
LogLevelOption = Annotated[
    LogLevel | None,
    typer.Option("--log-level", help="Minimum level of log messages", show_default="warning"),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation")]
SkipHooksOption = Annotated[
    bool,
    typer.Option("--skip-hooks", help="Skip pre-hooks, which is recorded (administrators only)"),
]
AllowEmptyOption = Annotated[
    bool, typer.Option("--allow-empty", help="Commit even without changes")
]
MetaOption = Annotated[
    list[str] | None, typer.Option("--meta", metavar="NAME=VALUE", help="Metadata (repeatable)")
]


LocalRootOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Directory of the server's local storage on this machine",
        show_default="as reported by the server",
    ),
]


@dataclass(frozen=True, slots=True)
class CommonOptions:
    """Options of all client commands, accepted before or after the command's name."""

    endpoint: str | None = None
    config: Path | None = None
    as_json: bool = False
    base_uri: str | None = None
    no_color: bool = False
    verbose: bool = False
    log_level: LogLevel | None = None

    def over(self, outer: "CommonOptions") -> "CommonOptions":
        """Return a copy with `outer` as defaults."""
        return CommonOptions(
            **{name: getattr(self, name) or getattr(outer, name) for name, _, _ in _COMMON}
        )


_COMMON: Final[tuple[tuple[str, object, object], ...]] = (
    ("as_json", JsonOption, False),
    ("endpoint", EndpointOption, None),
    ("config", ClientConfigOption, None),
    ("base_uri", BaseUriOption, None),
    ("no_color", NoColorOption, False),
    ("verbose", VerboseOption, False),
    ("log_level", LogLevelOption, None),
)


def common_parameters() -> list[inspect.Parameter]:
    """Return the fields of `CommonOptions` as parameters for Typer."""
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
        for name, kind, default in _COMMON
    ]


def key_values(pairs: Iterable[str] | None) -> dict[str, str]:
    """Parse `name=value` pairs."""
    read = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise InvalidArguments(f"{pair!r} is not name=value: expected for example owner=ada")
        read[name] = value
    return read


def read_json(file: Path, kind: type[KindT], expected: str) -> KindT:
    """Return the content of a JSON file; `-` is stdin."""
    import msgspec  # rarely needed

    from lakebed.base.invalid import explain_json

    text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as error:
        raise CommandError(f"{file} is not {expected}: {explain_json(error, kind, text)}") from None
    except (ValueError, RecursionError):
        raise CommandError(f"{file} is not JSON: expected {expected}") from None


def dotted_settings(**flags: object) -> dict[str, object]:
    """Return the given flags by dotted settings keys."""
    return {key.replace("__", "."): value for key, value in flags.items() if value is not None}
