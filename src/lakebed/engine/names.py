"""Valid names of repositories, branches and tags, checked before anything is touched."""

import re
from typing import Final

from lakebed.engine.errors import InvalidName
from lakebed.engine.model import BranchID, RepositoryID, TagID

_REPOSITORY: Final = re.compile(r"[a-z0-9][a-z0-9-]{2,62}")
_BRANCH: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,254}")
# Git's rule for a well-formed reference, without the characters of our own expressions. Lone
# surrogates cannot be encoded in UTF-8.
_TAG: Final = re.compile(r"[^\x00-\x20\x7f~^:?*\[\\@$\ud800-\udfff]{1,255}")


COMMIT_ID: Final = re.compile(r"[0-9a-f]{64}")
"""Not allowed as a branch or tag name: the id of a commit always means the commit."""


def is_commit_id(expression: str) -> bool:
    """Whether an expression is a full commit id, and so unambiguous."""
    return COMMIT_ID.fullmatch(expression) is not None


def check_repository_name(name: str) -> RepositoryID:
    """Return a valid repository name, or raise `InvalidName`."""
    if not _REPOSITORY.fullmatch(name):
        raise InvalidName(
            f"'{name}' is not a valid repository name: use 3 to 63 lower-case letters, digits"
            " and hyphens, beginning with a letter or digit"
        )
    return RepositoryID(name)


def check_branch_name(name: str) -> BranchID:
    """Return a valid branch name, or raise `InvalidName`."""
    if not _BRANCH.fullmatch(name) or COMMIT_ID.fullmatch(name):
        raise InvalidName(
            f"'{name}' is not a valid branch name: use up to 255 letters, digits, hyphens and"
            " underscores, not beginning with a hyphen, and not a commit id"
        )
    return BranchID(name)


def check_tag_name(name: str) -> TagID:
    """Return a valid tag name, or raise `InvalidName`."""
    parts = name.split("/")
    well_formed = all(part and not part.startswith(".") for part in parts)
    well_formed = well_formed and ".." not in name and not name.endswith(".lock")
    if not _TAG.fullmatch(name) or not well_formed or COMMIT_ID.fullmatch(name):
        raise InvalidName(
            f"'{name}' is not a valid tag name: use up to 255 characters without spaces and"
            r" without ~ ^ : ? * [ \ @ $, in parts that are not empty and do not begin with a dot,"
            " and not a commit id"
        )
    return TagID(name)
