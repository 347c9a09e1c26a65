"""``lakebed config``: the settings of a server."""

import typer

from lakebed.cli.local import ConfigOption, environment, explained

app = typer.Typer(no_args_is_help=True, help="The settings of a server.")


@app.callback()
def config() -> None:
    """The settings of a server."""


@app.command()
def check(*, config: ConfigOption = None) -> None:
    """Check the settings, and print what they come to; secrets are masked."""
    import yaml  # noqa: PLC0415 - only this command needs it

    from lakebed.server.config_files import load  # noqa: PLC0415 - it is slow to import
    from lakebed.server.settings import masked  # noqa: PLC0415 - it is slow to import

    with explained():
        settings = load(config, environment=environment())
    typer.echo(yaml.safe_dump(masked(settings), sort_keys=False, allow_unicode=True), nl=False)
