"""Check the messages of commits: ``area: imperative summary`` of at most 72 characters, and a body.

Without arguments, check the commits after `START`; merges are excepted. With the path of a file,
check the message in it, as Git's hook ``commit-msg`` asks.
"""

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

START: Final = "b428688c5b5418c095f4aa928a79781cbda3fc00"
"""The last commit that is not checked."""

SUMMARY_MAX: Final = 72
_SUMMARY: Final = re.compile(r"[a-z][a-z0-9_,/ -]*: \S.*[^\s.]")
_EXCEPTED: Final = re.compile(r"Merge |merge: |Revert |fixup! |squash! ")


def mistakes(message: str) -> list[str]:
    """Return the mistakes of a message, each with its remedy."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    summary = lines[0] if lines else ""
    if _EXCEPTED.match(summary):
        return []
    found = []
    if not _SUMMARY.fullmatch(summary):
        found.append("write the summary as `area: imperative summary`, without a full stop")
    if len(summary) > SUMMARY_MAX:
        found.append(f"shorten the summary: {len(summary)} characters, the limit is {SUMMARY_MAX}")
    if len(lines) > 1 and lines[1]:
        found.append("leave the second line empty")
    if not any(line.strip() for line in lines[2:]):
        found.append("give the reason in the body")
    return found


def history() -> dict[str, str] | None:
    """Return the messages of the commits after `START` by hash, or None if `START` is missing."""
    git = ("git", "-C", str(Path(__file__).parent))
    known = subprocess.run([*git, "cat-file", "-e", START], capture_output=True, check=False)
    if known.returncode:
        return None
    command = [*git, "log", "--no-merges", "--format=%h%n%B%x00", f"{START}..HEAD"]
    log = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    entries = (entry.lstrip("\n").partition("\n") for entry in log.split("\0"))
    return {commit: message for commit, _, message in entries if commit}


def main(arguments: Sequence[str]) -> int:
    """Check a message or the history; return 1 if there are mistakes."""
    messages = {"the message": Path(arguments[0]).read_text()} if arguments else history()
    if messages is None:
        print(f"the history does not reach back to {START[:10]}: no commit message is checked")
        return 0
    failed = {name: found for name, text in messages.items() if (found := mistakes(text))}
    for name, found in failed.items():
        print(f"{name}: {'; '.join(found)}", file=sys.stderr)
    if not arguments:
        print(f"{len(messages)} commit messages checked, {len(failed)} with mistakes")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
