"""Options that many commands share."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from lakebed.cli.errors import Misuse

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
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
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
    """The options that all client commands share."""

    endpoint: str | None = None
    config: Path | None = None
    as_json: bool = False

    def over(self, outer: "CommonOptions") -> "CommonOptions":
        """Return these; those that were not given come from before the command's name."""
        return CommonOptions(
            endpoint=self.endpoint or outer.endpoint,
            config=self.config or outer.config,
            as_json=self.as_json or outer.as_json,
        )


def key_values(pairs: Iterable[str] | None) -> dict[str, str]:
    """Return `name=value` pairs by name.

    Raises:
        Misuse: One has no `=` or no name.
    """
    read = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise Misuse(f"{pair!r} is not name=value, expected for example owner=ada")
        read[name] = value
    return read


def dotted_settings(**flags: object) -> dict[str, object]:
    """Return the flags that were given by the dotted keys of a server's settings."""
    return {key.replace("__", "."): value for key, value in flags.items() if value is not None}
