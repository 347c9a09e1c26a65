"""What the versioning engine refuses to do or cannot do.

LakebedError
└── EngineError
    ├── NotFound                there is no such thing                      (also a KeyError)
    │   ├── RepositoryNotFound, BranchNotFound, TagNotFound, CommitNotFound, EntryNotFound
    │   ├── MetaRangeNotFound   no commit of the repository has it
    │   └── RefNotFound         an expression that names nothing
    ├── NotUnique               something of that name is there already
    │   └── NamespaceTaken      another repository keeps its data there
    ├── Invalid                 the request cannot be carried out           (also a ValueError)
    │   ├── InvalidName, InvalidRef, UnsortedEntries
    │   └── ParentNumberMissing a merge has several parents, and none was chosen
    ├── PreconditionFailed      a conditional write found another state; nothing was written
    │   └── NothingThere        it found nothing
    ├── Stale                   a write took so long that its object may be taken for garbage
    ├── MergeConflict           both sides changed the same keys differently
    ├── DirtyBranch             the branch has uncommitted changes
    ├── NoChanges               there is nothing to commit or merge
    ├── Protected               a rule protects the branch
    ├── DefaultBranch           the default branch cannot be deleted
    ├── ReadOnly                the repository is read-only
    ├── Deleting                the repository is being deleted
    ├── Refused                 a hook refused
    ├── CommitRefused           a hook refused a commit, and no ref is made to it
    ├── TooManyTries            others always came first; try again
    ├── GivenUp                 it took so long that others ended it; try again
    ├── RefsLeftOut             a dump was restored, except for some refs
    ├── CommitExpired           the data of a commit is not kept any more
    ├── TooManyExpire           more commits would expire at once than may
    └── MissingFile             a file that something names is not in the storage
"""

from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

from lakebed.base.errors import LakebedError, NotFoundMixin, quoted
from lakebed.base.runtime import to_datetime


class EngineError(LakebedError):
    """Any error of the versioning engine."""

    kind: ClassVar[str] = "engine"


class NotFound(EngineError, NotFoundMixin):
    """There is no such thing."""

    kind = "not_found"


class RepositoryNotFound(NotFound):
    """There is no repository of this name."""

    kind = "repository_not_found"

    def __init__(self, repository: str) -> None:
        super().__init__(f"repository not found: {repository}")


class BranchNotFound(NotFound):
    """There is no branch of this name."""

    kind = "branch_not_found"

    def __init__(self, branch: str) -> None:
        super().__init__(f"branch not found: {branch}")


class TagNotFound(NotFound):
    """There is no tag of this name."""

    kind = "tag_not_found"

    def __init__(self, tag: str) -> None:
        super().__init__(f"tag not found: {tag}")


class CommitNotFound(NotFound):
    """There is no commit with this id."""

    kind = "commit_not_found"

    def __init__(self, commit: str) -> None:
        super().__init__(f"commit not found: {commit}")


class RefNotFound(NotFound):
    """There is no branch, tag or commit that an expression names."""

    kind = "ref_not_found"

    def __init__(self, expression: str) -> None:
        super().__init__(f"reference not found: {expression}")


class MetaRangeNotFound(NotFound):
    """No commit of the repository holds this metarange."""

    kind = "metarange_not_found"

    def __init__(self, repository: str, metarange_id: str) -> None:
        super().__init__(
            f"no commit of repository {repository} has the metarange '{metarange_id}': use the"
            " metarange id of one of its commits"
        )


class EntryNotFound(NotFound):
    """There is no entry with this key."""

    kind = "entry_not_found"

    def __init__(self, key: bytes) -> None:
        super().__init__(f"there is no entry {quoted(key)}")
        self.key = key


class NotUnique(EngineError):
    """Something of this name is there already."""

    kind = "not_unique"


class NamespaceTaken(NotUnique):
    """Another repository keeps its data in this namespace, above it or below it."""

    kind = "namespace_taken"


class Invalid(EngineError, ValueError):
    """The request cannot be carried out as it is; nothing was done."""

    kind = "invalid"


class InvalidName(Invalid):
    """A name that a repository, branch or tag cannot have."""

    kind = "invalid_name"


class InvalidRef(Invalid):
    """An expression that is not well formed, or cannot be used here."""

    kind = "invalid_ref"


class UnsortedEntries(Invalid):
    """Entries or changes came with keys out of order, or with a key twice."""

    kind = "unsorted_entries"

    def __init__(self, before: bytes, after: bytes) -> None:
        super().__init__(
            f"key {quoted(after)} comes after {quoted(before)}: keys must rise from row to row"
        )


class ParentNumberMissing(Invalid):
    """What a merge changed depends on the parent that it is compared with."""

    kind = "parent_number_missing"

    def __init__(self, commit: str, parents: int) -> None:
        super().__init__(
            f"commit {commit} has {parents} parents: give the number of one, counted from 1"
        )


class PreconditionFailed(EngineError):
    """The condition of a write does not hold; nothing was written."""

    kind = "entry_precondition_failed"

    def __init__(self, key: bytes, found: str) -> None:
        super().__init__(f"the condition on {quoted(key)} does not hold: {found}")
        self.key = key


class NothingThere(PreconditionFailed):
    """A write was to happen only if there is an entry, and there is none; nothing was written."""

    kind = "nothing_there"

    def __init__(self, key: bytes) -> None:
        super().__init__(key, "there is no such entry")


class Stale(EngineError):
    """A write took too long and was taken back; without a condition, it may have been seen.

    Its object is too old to be staged. A plain write was visible until it was taken back, and a
    commit may hold it. A write on a condition was never visible.
    """

    kind = "stale"

    def __init__(self, key: bytes) -> None:
        super().__init__(
            f"the write of {quoted(key)} took so long that its object may be taken for garbage:"
            " it was taken back, upload the object again"
        )
        self.key = key


class MergeConflict(EngineError):
    """Both sides of a merge changed the same keys, and differently; nothing was merged."""

    kind = "merge_conflict"

    def __init__(self, conflicts: pa.Table) -> None:
        super().__init__(f"{conflicts.num_rows} keys were changed differently on both sides")
        self.conflicts = conflicts
        """All of them, in order: key, and what each side did (see `CONFLICT_SCHEMA`)."""


class DirtyBranch(EngineError):
    """The branch has uncommitted changes; commit or reset them first."""

    kind = "dirty_branch"

    def __init__(self, branch: str) -> None:
        super().__init__(f"branch {branch} has uncommitted changes: commit or reset them first")


class NoChanges(EngineError):
    """There is nothing to commit or merge."""

    kind = "no_changes"


class Protected(EngineError):
    """A rule protects the branch from what was asked for."""

    kind = "protected"

    def __init__(self, branch: str, pattern: str) -> None:
        super().__init__(f"branch {branch} is protected by the rule '{pattern}'")


class DefaultBranch(EngineError):
    """The default branch of a repository cannot be deleted."""

    kind = "default_branch"

    def __init__(self, repository: str, branch: str) -> None:
        super().__init__(
            f"branch {branch} is the default branch of repository {repository}: it cannot be"
            " deleted"
        )


class ReadOnly(EngineError):
    """The repository is read-only."""

    kind = "read_only"

    def __init__(self, repository: str) -> None:
        super().__init__(f"repository {repository} is read-only")


class Deleting(EngineError):
    """The repository is being deleted; soon it will not be found."""

    kind = "deleting"

    def __init__(self, repository: str) -> None:
        super().__init__(f"repository {repository} is being deleted")


class Refused(EngineError):
    """A hook refused the operation."""

    kind = "refused"

    def __init__(self, message: str, *, by: str = "") -> None:
        """Make the error.

        Args:
            message: The message.
            by: Which hook refused it, as in "refused by …"; empty: the message's first line.
        """
        super().__init__(message)
        self.by = by or message.partition("\n")[0]


class CommitRefused(EngineError):
    """A hook refused this commit, so no ref is made to it."""

    kind = "commit_refused"

    def __init__(self, commit_id: str, by: str) -> None:
        super().__init__(f"commit {commit_id} was refused by {by}, and is on no branch")


class TooManyTries(EngineError):
    """Others changed the same record first, every time; nothing was lost, try again."""

    kind = "too_many_tries"

    def __init__(self, what: str, tries: int) -> None:
        super().__init__(f"{what} failed {tries} times because others came first: try again")


class GivenUp(EngineError):
    """It took so long that others took it for dead and undid it; try again."""

    kind = "given_up"

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} took so long that others undid it: try again")


class CommitExpired(EngineError):
    """A commit has expired by the rules of its repository: its data may be gone."""

    kind = "commit_expired"

    def __init__(self, commit: str, expired_us: int) -> None:
        super().__init__(
            f"commit {commit} expired on {to_datetime(expired_us):%Y-%m-%d} by the garbage"
            " collection rules of its repository: its data is not kept any more. Use a newer commit"
        )


class RefsLeftOut(EngineError):
    """A dump was restored, except for some of its refs; running it again restores no more."""

    kind = "refs_left_out"

    def __init__(self, dump_id: str, left_out: Sequence[str], count: int) -> None:
        """`left_out` are the first of `count` refs, each with the reason."""
        more = count - len(left_out)
        others = f", and {more} others: the log of the server names them" if more else ""
        super().__init__(
            f"dump {dump_id} was restored without {count} of its refs: {'; '.join(left_out)}"
            f"{others}. Everything else was restored; create these refs at commits that are kept"
        )


class TooManyExpire(EngineError):
    """More commits would expire at once than the caller allows; none has."""

    kind = "too_many_expire"

    def __init__(self, count: int, known: int, max_share: float) -> None:
        super().__init__(
            f"{count} of {known} commits would expire, more than the share of {max_share:g}: none"
            " has. Look at the garbage collection rules; if this is meant, allow a larger share"
        )


class MissingFile(EngineError):
    """A range or metarange that something names is not in the storage."""

    kind = "missing_file"

    def __init__(self, file: str) -> None:
        super().__init__(f"{file} is missing from the storage")
        self.file = file
