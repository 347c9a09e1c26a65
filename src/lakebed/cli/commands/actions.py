"""`lakebed actions`: files that ask for hooks, and the runs of hooks."""

from pathlib import Path
from typing import Annotated, Any

import typer

from lakebed.cli.errors import Incomplete, Misuse
from lakebed.cli.groups import new_group
from lakebed.cli.session import Session, client_command
from lakebed.hooks.errors import InvalidAction
from lakebed.hooks.files import FILE_BYTES_MAX, Action, check_names, parse_action

app = new_group("Files that ask for hooks, and the runs of hooks.")


@client_command(app, "validate")
def validate(
    session: Session,
    *,
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="An action file, or a folder of them.")
    ],
) -> None:
    """Check action files before they are uploaded; no server is asked.

    lakebed actions validate _lakefs_actions/
    """
    findings = _check(_files(path))
    session.output.table(
        findings,
        [
            ("File", lambda item: item["file"]),
            ("", lambda item: "ok" if item["problem"] is None else "WRONG"),
            ("Found", lambda item: item["problem"] or item["action"]),
        ],
    )
    wrong = sum(finding["problem"] is not None for finding in findings)
    if wrong:
        raise Incomplete(f"{wrong} of {len(findings)} action files cannot be used, see above")


def _files(path: Path) -> list[Path]:
    """Return the file, or those right in a folder: the server looks no deeper either."""
    try:
        files = (
            sorted(each for each in path.iterdir() if each.is_file()) if path.is_dir() else [path]
        )
    except OSError as error:
        raise Misuse(f"cannot read {path}: {error.strerror}") from error
    if not files:
        raise Misuse(f"there is no file in {path}")
    return files


def _check(files: list[Path]) -> list[dict[str, Any]]:
    findings: list[dict[str, Any]] = []
    actions: list[Action] = []
    for file in files:
        finding: dict[str, Any] = {"file": str(file), "action": None, "problem": None}
        try:
            action = parse_action(str(file), _read(file))
            check_names([*actions, action])
        except InvalidAction as error:
            finding["problem"] = error.reason
        else:
            finding["action"] = action.name
            actions.append(action)
        findings.append(finding)
    return findings


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise Misuse(f"cannot read {file}: {error.strerror}") from error
