"""Interface of hooks: run before operations, which they may refuse, and after."""

from dataclasses import dataclass

from lakebed.base.runtime import UniqueID
from lakebed.engine.model import Branch, BranchID, Commit, CommitID, Repository, Tag, TagID
from lakebed.formats import MetaRangeID


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """The staged changes of a branch, before they are sealed for a commit."""

    repository: Repository
    branch: BranchID
    head: Commit
    """The head of the branch when the commit began."""
    metarange_id: MetaRangeID
    """The branch with its staged changes, as it was when the commit began."""
    committer: str
    message: str
    metadata: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A commit that is stored and about to be published."""

    operation: str
    """``commit``, ``merge``, ``revert``, ``cherry-pick`` or ``import``."""
    repository: Repository
    branch: BranchID
    branch_unique_id: UniqueID
    commit: Commit
    """The commit that becomes the head unless a hook refuses; already readable."""
    head: Commit
    """The replaced commit: publishing swaps a branch record with this head."""
    judge: Commit
    """The commit with the rules that apply: the source of a merge, the proposed commit itself for
    staged changes, else the head."""
    merge_source: str = ""
    """The source of a merge, as requested."""
    number: int = 1
    """How many contents the request has proposed so far, including this one."""


class Hooks:
    """No-op by default; subclasses override the events they handle.

    A ``before_…`` hook stops the operation by raising `Refused`; no effect is visible until then.
    An ``after_…`` hook runs when the operation has taken effect, cannot undo it, and never raises.

    No lock is held while hooks run, and no other client waits for them.
    """

    def prepare_commit(self, preparation: Preparation) -> bool:
        """Before staged changes are sealed for a commit; once per request.

        Returns:
            Whether a hook ran that may have changed the branch.
        """
        del preparation
        return False

    def before_commit(self, proposal: Proposal) -> None:
        """Before a commit, merge, revert, cherry-pick or import is published.

        Called once for each content and parents: if another commit is published first, the rebuilt
        commit is proposed too.
        """

    def before_publish(self, proposal: Proposal) -> None:
        """Before each attempt to make a proposed commit the head of its branch.

        The branch was read before this call; the attempt compares and swaps the record read.
        """

    def after_commit(self, proposal: Proposal) -> None:
        """After a proposed commit was published."""

    def before_create_branch(
        self,
        repository: Repository,
        branch: BranchID,
        commit_id: CommitID,
        source: str,
        unique_id: UniqueID,
    ) -> None:
        """Before a branch is created from `source`, the ref as requested.

        `unique_id` belongs to the branch. Called again if the ref now points to another commit.
        """

    def before_create_tag(
        self, repository: Repository, tag: TagID, commit_id: CommitID, unique_id: UniqueID
    ) -> None:
        """Before a tag is created; otherwise as `before_create_branch`."""

    def before_delete_branch(
        self, repository: Repository, branch: Branch, operation: UniqueID
    ) -> None:
        """Before `operation` deletes a branch."""

    def before_delete_tag(self, repository: Repository, tag: Tag, operation: UniqueID) -> None:
        """Before `operation` deletes a tag."""

    def before_try(self, repository: Repository, operation: UniqueID) -> None:
        """Before each attempt to create or delete a branch or a tag.

        The attempt compares and swaps the pending record or the ref's record, written or read
        before this call. The id of a creation is the unique id of the branch or tag.
        """

    def before_leaving(self, repository: Repository, ref: Branch | Tag) -> None:
        """Before each attempt to delete a branch or tag, or to move a branch to another history.

        The attempt compares and swaps the record read. Afterwards, no record tells which commits
        the ref led to.
        """

    def after_change(self, repository: Repository, operation: UniqueID) -> None:
        """After a branch or a tag was created or deleted."""

    def after_failed_change(self, repository: Repository, operation: UniqueID) -> None:
        """After a creation or deletion failed, for example because the name was taken."""
