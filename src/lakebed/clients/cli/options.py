"""Options shared by many commands."""

import inspect
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar

import typer

from lakebed.clients.cli.errors import CommandError, Misuse
from lakebed.clients.cli.uris import set_base_uri

KindT = TypeVar("KindT")

EndpointOption = Annotated[
    str | None,
    typer.Option(metavar="URL", help="The server, for example http://127.0.0.1:8000."),
]
ClientConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Settings in lakectl's format.  [default: ~/.lakectl.yaml]",
    ),
]
ServerConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="A YAML file of a server's settings.", show_default=False),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
BaseUriOption = Annotated[
    str | None,
    typer.Option(
        "--base-uri",
        metavar="URI",
        help="What names without lakefs:// begin with, for example lakefs://my-repo/main.",
        # Eager, as it affects the parsing of arguments.
        is_eager=True,
        callback=set_base_uri,
    ),
]
NoColorOption = Annotated[bool, typer.Option("--no-color", help="Print without colours.")]
VerboseOption = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Show the requests to the server, without secrets."),
]
LogLevel = Literal["debug", "info", "warning", "error", "none"]
LogLevelOption = Annotated[
    LogLevel | None,
    typer.Option("--log-level", help="Which lines of the log to show.", show_default="warning"),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
SkipHooksOption = Annotated[
    bool,
    typer.Option(
        "--skip-hooks", help="Run no hooks before it, which is noted; for administrators."
    ),
]
MetaOption = Annotated[
    list[str] | None,
    typer.Option("--meta", metavar="NAME=VALUE", help="Metadata; may be given several times."),
]


LocalRootOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Where the server's local storage is on this machine.",
        show_default="where the server says",
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
            endpoint=self.endpoint or outer.endpoint,
            config=self.config or outer.config,
            as_json=self.as_json or outer.as_json,
            base_uri=self.base_uri or outer.base_uri,
            no_color=self.no_color or outer.no_color,
            verbose=self.verbose or outer.verbose,
            log_level=self.log_level or outer.log_level,
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
    """Parse `name=value` pairs.

    Raises:
        Misuse: A pair has no `=` or no name.
    """
    read = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise Misuse(f"{pair!r} is not name=value, expected for example owner=ada")
        read[name] = value
    return read


def read_json(file: Path, kind: type[KindT], expected: str) -> KindT:
    """Return the content of a JSON file; `-` is stdin.

    Raises:
        CommandError: The content is not JSON, or not of this kind.
        OSError: The file is unreadable.
    """
    import msgspec  # rarely needed

    text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as error:
        raise CommandError(f"{file} is not {expected}: {error}") from None
    except (ValueError, RecursionError):
        raise CommandError(f"{file} is not JSON, expected {expected}") from None


def dotted_settings(**flags: object) -> dict[str, object]:
    """Return the given flags by dotted settings keys."""
    return {key.replace("__", "."): value for key, value in flags.items() if value is not None}
