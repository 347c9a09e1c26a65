"""`lakebed completion`: commands and options that the shell completes."""

from typing import Annotated, Literal

import typer
from typer._completion_shared import get_completion_script


def completion(
    *,
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="Your shell.")],
) -> None:
    """Print a script that completes commands and options.

    bash:  source <(lakebed completion bash), in ~/.bashrc

    zsh:   source <(lakebed completion zsh), in ~/.zshrc, behind compinit

    fish:  lakebed completion fish > ~/.config/fish/completions/lakebed.fish
    """
    typer.echo(
        get_completion_script(prog_name="lakebed", complete_var="_LAKEBED_COMPLETE", shell=shell)
    )
