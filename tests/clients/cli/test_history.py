"""How commits are printed."""

import msgspec

from lakebed.clients.cli.commands.history import commit_text
from lakebed.wire.refs import Commit

COMMIT = Commit(
    id="c" * 64,
    parents=["p" * 64],
    committer="ada",
    message="why",
    creation_date=0,
    meta_range_id="",
)


def test_a_refused_commit_says_which_hook_refused_it() -> None:
    refused = msgspec.structs.replace(COMMIT, refused="pre-commit hook 'check', run r")
    line = "Refused:   by pre-commit hook 'check', run r; not on any branch"
    assert line in commit_text(refused).splitlines()
    assert "Refused" not in commit_text(COMMIT)
