"""What a lake on a server makes of the answers of the API."""

import pytest
from msgspec import UNSET, UnsetType

from lakebed.clients.library import remote
from lakebed.wire import refs


@pytest.mark.parametrize(
    ("refused", "refused_by"), [("hook 'check'", "hook 'check'"), (UNSET, None)]
)
def test_a_commit_says_which_hook_refused_it(
    refused: str | UnsetType, refused_by: str | None
) -> None:
    found = refs.Commit(
        id="c",
        parents=[],
        committer="ada",
        message="m",
        creation_date=0,
        meta_range_id="r",
        refused=refused,
    )
    assert remote._commit(found).refused_by == refused_by
