"""`lakebed completion`: shell completion of commands and options."""

from typing import Annotated, Literal

import typer
from typer._completion_shared import get_completion_script


def completion(
    *, shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="Your shell")]
) -> None:
    """Print a completion script for commands and options.

    bash:  source <(lakebed completion bash), in ~/.bashrc

    zsh:   source <(lakebed completion zsh), in ~/.zshrc, after compinit

    fish:  lakebed completion fish > ~/.config/fish/completions/lakebed.fish
    """
    typer.echo(
        get_completion_script(prog_name="lakebed", complete_var="_LAKEBED_COMPLETE", shell=shell)
    )
