"""`lakebed run`, `quickstart` and `config check`: start a server, or check its settings.

The server is imported on demand, so that other commands start fast.
"""

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.base.errors import MissingExtraError
from lakebed.clients.cli.options import ServerConfigOption, dotted_settings
from lakebed.clients.cli.output import warn
from lakebed.clients.cli.running import SERVER_PACKAGES

if TYPE_CHECKING:
    from lakebed.auth import KeyPair

HostOption = Annotated[
    str | None, typer.Option(help="Address to listen on", show_default="127.0.0.1")
]
PortOption = Annotated[int | None, typer.Option(help="Port to listen on", show_default="8000")]


def run(
    *,
    config: ServerConfigOption = None,
    host: HostOption = None,
    port: PortOption = None,
    workers: Annotated[
        int | None, typer.Option(help="Number of worker processes", show_default="2")
    ] = None,
) -> None:
    """Run a server.

    Settings come from the file, from environment variables such as LAKEBED_SERVER__LISTEN__PORT,
    and from flags; later ones win. `lakebed config check` shows the result.
    """
    _check_installed()
    from lakebed.server.config_files import load
    from lakebed.server.processes.supervisor import serve

    flags = dotted_settings(listen__host=host, listen__port=port, processes__workers=workers)
    settings = load(config, environment=os.environ, flags=flags)
    serve(settings, on_ready=_print_ready)


def _print_ready(endpoint: str) -> None:
    """Print the address of a ready server and, if needed, the command for its setup."""
    from lakebed.clients.http.http import waits_for_setup

    typer.echo(f"lakebed is ready at {endpoint}")
    if waits_for_setup(endpoint):
        typer.echo(f"It has no users yet. To set it up: {_program()} setup --endpoint {endpoint}")
    sys.stdout.flush()


def quickstart(
    *,
    host: Annotated[str, typer.Option(help="Address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on")] = 8000,
    data_dir: Annotated[Path, typer.Option(help="Directory for all data")] = Path("data"),
    sample: Annotated[
        bool, typer.Option("--sample/--no-sample", help="Create a sample repository")
    ] = True,
) -> None:
    """Start a server for evaluation, with all data in one directory.

    Starting it again in the same directory keeps all data.
    """
    _check_installed()
    from lakebed.server import quickstart as steps
    from lakebed.server.config_files import load
    from lakebed.server.processes.preflight import check_place
    from lakebed.server.processes.supervisor import serve

    variables = {"LAKEBED_SERVER__LOGGING__FORMAT": "text"} | dict(os.environ)
    steps.restrict_access(data_dir)
    steps.create_key(data_dir)
    flags = steps.flags_of(data_dir, host, port)
    settings = load(environment=variables, flags=flags)
    check_place(settings)
    pair = steps.prepare(settings, sample=sample)
    garbage = steps.garbage_notice(settings)
    serve(settings, on_ready=lambda endpoint: _welcome(endpoint, pair, data_dir, garbage))


def _check_installed() -> None:
    """Fail early if only the client is installed."""
    if any(find_spec(package) is None for package in SERVER_PACKAGES):
        raise MissingExtraError("the server", "server")


def check(*, config: ServerConfigOption = None) -> None:
    """Check the settings, the database and the storage, and print the effective settings.

    Secrets are masked. A cloud storage gets one signed request. All problems are reported together.
    A new database is initialized, except that a missing file is not created.
    """
    import yaml  # slow to import, needed only here

    from lakebed.server.config_files import read
    from lakebed.server.processes.preflight import check_database, check_storage, warnings_of
    from lakebed.server.settings import SettingsError, masked

    settings = read(config, environment=os.environ)
    problems: list[str] = []
    try:
        settings.check(config)
    except SettingsError as error:
        problems += error.problems
    problems += check_database(settings)
    problems += check_storage(settings)
    for warning in warnings_of(settings):
        warn(f"warning: {warning}")
    if problems:
        raise SettingsError(problems)
    typer.echo(yaml.safe_dump(masked(settings), sort_keys=False, allow_unicode=True), nl=False)


def _welcome(endpoint: str, pair: "KeyPair | None", data_dir: Path, garbage: str) -> None:
    from rich.console import Console

    from lakebed.server.quickstart import log_file

    console = Console(highlight=False, soft_wrap=True)  # no line breaks in lines to be copied
    console.print(f"\n[bold green]Lakebed is ready[/] at [bold]{endpoint}[/]")
    folder = data_dir.absolute()
    console.print(f"[dim]All data is in {folder}. Ctrl-C stops the server.[/]")
    console.print(f"[dim]The log is {log_file(folder)}; warnings are shown here too.[/]")
    console.print(f"[dim]{garbage}[/]")
    if pair is None:
        console.print("The keys of this installation were printed when it was first started.\n")
        return
    console.print(f"\n  access key id      [bold]{pair.access_key_id}[/]")
    console.print(f"  secret access key  [bold]{pair.secret_access_key}[/]")
    console.print("\nThree things to try, in another terminal:\n")
    console.print("[dim]# 1. Configure the command line, and list the repositories.[/]")
    for line in _commands(endpoint, pair):
        console.print(line, markup=False)
    console.print("\n[dim]# 2. Call the API, which is that of lakeFS.[/]")
    keys = f"{pair.access_key_id}:{pair.secret_access_key}"
    console.print(f"curl -u {keys} {endpoint}/api/v1/repositories", markup=False)
    console.print("\n[dim]# 3. Open the web UI, and log in with these keys.[/]")
    console.print(f"{endpoint}/\n", markup=False)


def _commands(endpoint: str, pair: "KeyPair") -> list[str]:
    return [
        f"export LAKEBED_ENDPOINT={endpoint}",
        f"export LAKEBED_ACCESS_KEY_ID={pair.access_key_id}",
        f"export LAKEBED_SECRET_ACCESS_KEY={pair.secret_access_key}",
        f"{_program()} repo list",
    ]


def _program() -> str:
    """Return the command that runs this program from another terminal."""
    return "lakebed" if shutil.which("lakebed") else str(Path(sys.argv[0]).absolute())
