"""Code that runs before operations, and may refuse them, and after operations."""

from dataclasses import dataclass

from lakebed.engine.model import BranchID, Commit, CommitID, Repository, TagID
from lakebed.formats import MetaRangeID


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A commit about to be published."""

    operation: str
    """``commit``, ``merge``, ``revert``, ``cherry-pick`` or ``import``."""
    repository: Repository
    branch: BranchID
    metarange_id: MetaRangeID
    """What the commit will hold."""
    parents: tuple[CommitID, ...]
    message: str
    committer: str
    metadata: dict[str, str]


class Hooks:
    """Does nothing; subclasses override what they care about.

    A ``before_…`` hook stops the operation by raising `Refused`; until then nothing has happened
    that anyone could see. It runs once for every content: if another commit comes first and the
    content changes, it runs again. An ``after_…`` hook runs when the operation has taken effect,
    and cannot undo it.
    """

    def before_commit(self, offer: Offer) -> None:
        """Before a commit, merge, revert or cherry-pick is published."""

    def after_commit(self, offer: Offer, commit: Commit) -> None:
        """After it was published."""

    def before_create_branch(
        self, repository: Repository, branch: BranchID, commit_id: CommitID
    ) -> None:
        """Before a branch is made."""

    def after_create_branch(
        self, repository: Repository, branch: BranchID, commit_id: CommitID
    ) -> None:
        """After it was made."""

    def before_delete_branch(self, repository: Repository, branch: BranchID) -> None:
        """Before a branch is deleted."""

    def after_delete_branch(self, repository: Repository, branch: BranchID) -> None:
        """After it was deleted."""

    def before_create_tag(self, repository: Repository, tag: TagID, commit_id: CommitID) -> None:
        """Before a tag is made."""

    def after_create_tag(self, repository: Repository, tag: TagID, commit_id: CommitID) -> None:
        """After it was made."""

    def before_delete_tag(self, repository: Repository, tag: TagID) -> None:
        """Before a tag is deleted."""

    def after_delete_tag(self, repository: Repository, tag: TagID) -> None:
        """After it was deleted."""
