"""`lakebed completion`: shell completion of commands, options and URIs."""

from typing import Annotated, Final, Literal

import typer
from typer._completion_shared import get_completion_script

_BASH: Final = """
_lakebed_completion() {
    local IFS=$'\\n' line=${COMP_LINE:0:COMP_POINT}
    COMPREPLY=( $(_LAKEBED_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=get-args \\
        _TYPER_COMPLETE_ARGS=$line "$1" 2>/dev/null | cut -f 1) )
    # Readline replaces what follows the last colon.
    local word=${line##* }
    if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then
        COMPREPLY=( "${COMPREPLY[@]#"${word%:*}:"}" )
    fi
    if [[ ${COMPREPLY[0]} == */ ]]; then compopt -o nospace 2>/dev/null; fi
}

complete -o default -F _lakebed_completion lakebed
"""
"""As Typer's, but for words with a colon; fish is asked for plain lines with the whole line."""


def completion(
    *, shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="Your shell")]
) -> None:
    """Print a completion script for commands, options, and URIs of the configured server.

    bash:  source <(lakebed completion bash), in ~/.bashrc

    zsh:   source <(lakebed completion zsh), in ~/.zshrc, after compinit

    fish:  lakebed completion fish > ~/.config/fish/completions/lakebed.fish
    """
    script = get_completion_script(
        prog_name="lakebed", complete_var="_LAKEBED_COMPLETE", shell=shell
    )
    typer.echo(_BASH if shell == "bash" else script)
