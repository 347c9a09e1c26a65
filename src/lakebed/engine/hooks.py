"""Code that runs before operations, and may refuse them, and after operations."""

from dataclasses import dataclass

from lakebed.base.ids import UniqueID
from lakebed.engine.model import Branch, BranchID, Commit, CommitID, Repository, Tag, TagID
from lakebed.formats import MetaRangeID


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """What is staged on a branch, before it is sealed for a commit."""

    repository: Repository
    branch: BranchID
    head: Commit
    """The head of the branch when the commit began."""
    metarange_id: MetaRangeID
    """The branch with what is staged, as it was when the commit began."""
    committer: str
    message: str
    metadata: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A commit that is stored, and about to be published."""

    operation: str
    """``commit``, ``merge``, ``revert``, ``cherry-pick`` or ``import``."""
    repository: Repository
    branch: BranchID
    branch_unique_id: UniqueID
    commit: Commit
    """The very commit that will be the head, if nobody refuses it; it can be read already."""
    head: Commit
    """The commit whose place it takes: it is published by a swap of a branch record with it."""
    judge: Commit
    """The commit that holds the rules for it: of a merge the source, of what is staged the
    proposed commit itself, else the head."""
    merge_source: str = ""
    """The source of a merge, as it was asked for."""
    number: int = 1
    """How many contents the request has proposed by now, with this one."""


class Hooks:
    """No-op by default; subclasses override the events they handle.

    A ``before_…`` hook stops the operation by raising `Refused`; until then nothing has happened
    that anyone could see. An ``after_…`` hook runs when the operation has taken effect, cannot undo
    it, and raises nothing.

    No lock is held while hooks run, and nobody has to wait for them.
    """

    def prepare_commit(self, preparation: Preparation) -> bool:
        """Before what is staged is sealed for a commit; once for a request.

        Returns:
            Whether anything ran that may have changed the branch.
        """
        del preparation
        return False

    def before_commit(self, proposal: Proposal) -> None:
        """Before a commit, merge, revert, cherry-pick or import is published.

        Called once for each content and parents: if another commit comes first, the next one is
        proposed too.
        """

    def before_publish(self, proposal: Proposal) -> None:
        """Before each try to make a proposed commit the head of its branch.

        The branch was read before this is called, and the try is a swap of what was read.
        """

    def after_commit(self, proposal: Proposal) -> None:
        """After it was published."""

    def before_create_branch(
        self,
        repository: Repository,
        branch: BranchID,
        commit_id: CommitID,
        source: str,
        unique_id: UniqueID,
    ) -> None:
        """Before a branch is made, from a ref as it was asked for.

        The unique id is that of the branch. Called again if the ref names another commit by now.
        """

    def before_create_tag(
        self, repository: Repository, tag: TagID, commit_id: CommitID, unique_id: UniqueID
    ) -> None:
        """Before a tag is made; otherwise as `before_create_branch`."""

    def before_delete_branch(
        self, repository: Repository, branch: Branch, operation: UniqueID
    ) -> None:
        """Before a branch is deleted, by the operation with this id."""

    def before_delete_tag(self, repository: Repository, tag: Tag, operation: UniqueID) -> None:
        """Before a tag is deleted, by the operation with this id."""

    def before_try(self, repository: Repository, operation: UniqueID) -> None:
        """Before each try to make or to delete a branch or a tag.

        What the try is a swap of, the pending record or that of the ref, was written or read before
        this is called. The id of a creation is that of the branch or the tag.
        """

    def before_leaving(self, repository: Repository, ref: Branch | Tag) -> None:
        """Before each try to delete a branch or a tag, or to move a branch to another history.

        The try is a swap of what was read. Afterwards, nothing tells any more what led there.
        """

    def after_change(self, repository: Repository, operation: UniqueID) -> None:
        """After a branch or a tag was made or deleted."""

    def after_failed_change(self, repository: Repository, operation: UniqueID) -> None:
        """After it was not: the name was taken, for example, or others deleted it first."""
