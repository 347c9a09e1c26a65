"""Errors of the versioning engine.

LakebedError
└── EngineError
    ├── NotFound                not found                                   (also a KeyError)
    │   ├── RepositoryNotFound, BranchNotFound, TagNotFound, CommitNotFound, EntryNotFound
    │   ├── MetaRangeNotFound   no commit of the repository has the metarange
    │   └── RefNotFound         no branch, tag or commit matches an expression
    ├── NotUnique               the name is taken
    │   └── NamespaceTaken      another repository keeps its data there
    ├── Invalid                 the request cannot be carried out           (also a ValueError)
    │   ├── InvalidName, InvalidRef, UnsortedEntries
    │   └── ParentNumberMissing a merge has several parents, and none was chosen
    ├── PreconditionFailed      a conditional write found another state; nothing was written
    │   └── NothingThere        a conditional write found no entry
    ├── Stale                   a write took so long that its object may be taken for garbage
    ├── MergeConflict           both sides changed the same keys differently
    ├── DirtyBranch             the branch has uncommitted changes
    ├── NoChanges               nothing to commit or merge
    ├── Protected               a rule protects the branch
    ├── DefaultBranch           the default branch cannot be deleted
    ├── ReadOnly                the repository is read-only
    ├── Deleting                the repository is being deleted
    ├── Refused                 a hook refused
    ├── CommitRefused           a hook refused a commit; no ref can be made to it
    ├── TooManyTries            concurrent changes won every time; try again
    ├── GivenUp                 another client undid an operation that took too long; try again
    ├── RefsLeftOut             a dump was restored, except for some refs
    ├── CommitExpired           the data of a commit has expired
    ├── TooManyExpire           more commits would expire at once than allowed
    └── MissingFile             a referenced file is not in the storage
"""

from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

from lakebed.base.errors import LakebedError, NotFoundMixin, quoted
from lakebed.base.runtime import to_datetime


class EngineError(LakebedError):
    """Base class of the engine's errors."""

    kind: ClassVar[str] = "engine"


class NotFound(EngineError, NotFoundMixin):
    """The requested thing does not exist."""

    kind = "not_found"


class RepositoryNotFound(NotFound):
    """No repository has this name."""

    kind = "repository_not_found"

    def __init__(self, repository: str) -> None:
        super().__init__(f"repository not found: {repository}")


class BranchNotFound(NotFound):
    """No branch has this name."""

    kind = "branch_not_found"

    def __init__(self, branch: str, is_: str = "") -> None:
        reason = f" is {is_}, and only branches can be changed" if is_ else ""
        super().__init__(f"branch not found: {branch}{reason}")


class TagNotFound(NotFound):
    """No tag has this name."""

    kind = "tag_not_found"

    def __init__(self, tag: str) -> None:
        super().__init__(f"tag not found: {tag}")


class CommitNotFound(NotFound):
    """No commit has this id."""

    kind = "commit_not_found"

    def __init__(self, commit: str) -> None:
        super().__init__(f"commit not found: {commit}")


class RefNotFound(NotFound):
    """No branch, tag or commit matches an expression."""

    kind = "ref_not_found"

    def __init__(self, expression: str) -> None:
        super().__init__(f"reference not found: {expression}")


class MetaRangeNotFound(NotFound):
    """No commit of the repository has this metarange."""

    kind = "metarange_not_found"

    def __init__(self, repository: str, metarange_id: str) -> None:
        super().__init__(
            f"no commit of repository {repository} has the metarange '{metarange_id}': use the"
            " metarange id of one of its commits"
        )


class EntryNotFound(NotFound):
    """No entry has this key."""

    kind = "entry_not_found"

    def __init__(self, key: bytes) -> None:
        super().__init__(f"object not found: {quoted(key)}")
        self.key = key


class NotUnique(EngineError):
    """The name is taken."""

    kind = "not_unique"

    @classmethod
    def repository(cls, name: str) -> "NotUnique":
        """Return the error for a repository that exists."""
        return cls(f"repository {name} already exists: use another name")


class NamespaceTaken(NotUnique):
    """Another repository keeps its data in this namespace, above or below."""

    kind = "namespace_taken"


class Invalid(EngineError, ValueError):
    """The request cannot be carried out; nothing was done."""

    kind = "invalid"


class InvalidName(Invalid):
    """The name is not allowed for a repository, branch or tag."""

    kind = "invalid_name"


class InvalidRef(Invalid):
    """The expression is not well formed, or cannot be used here."""

    kind = "invalid_ref"


class UnsortedEntries(Invalid):
    """The keys of entries or changes are out of order or repeated."""

    kind = "unsorted_entries"

    def __init__(self, before: bytes, after: bytes) -> None:
        super().__init__(
            f"key {quoted(after)} comes after {quoted(before)}: keys must rise from row to row"
        )


class ParentNumberMissing(Invalid):
    """The changes of a merge commit depend on the parent to compare with, and none was given."""

    kind = "parent_number_missing"

    def __init__(self, commit: str, parents: int) -> None:
        super().__init__(
            f"commit {commit} is a merge of {parents} parents: give the number of the parent to"
            " compare with, from 1 (-m on the command line)"
        )


class PreconditionFailed(EngineError):
    """The condition of a write does not hold; nothing was written."""

    kind = "entry_precondition_failed"

    def __init__(self, key: bytes, found: str) -> None:
        super().__init__(f"the condition on {quoted(key)} does not hold: {found}")
        self.key = key


class NothingThere(PreconditionFailed):
    """The write required an existing entry and found none; nothing was written."""

    kind = "nothing_there"

    def __init__(self, key: bytes) -> None:
        super().__init__(key, "no object exists")


class Stale(EngineError):
    """The write took too long and was undone; without a condition, readers may have seen it.

    Its object is too old to be staged. An unconditional write was visible until the undo, and a
    commit may contain the entry. A conditional write was never visible.
    """

    kind = "stale"

    def __init__(self, key: bytes) -> None:
        super().__init__(
            f"the write of {quoted(key)} took so long that its object may be taken for garbage:"
            " it was undone; upload the object again"
        )
        self.key = key


class MergeConflict(EngineError):
    """Both sides of a merge changed the same keys differently; nothing was merged."""

    kind = "merge_conflict"

    def __init__(self, conflicts: pa.Table) -> None:
        first = quoted(conflicts["key"][0].as_py())
        more = f" and {conflicts.num_rows - 1} more" if conflicts.num_rows > 1 else ""
        super().__init__(
            f"both sides changed {first}{more} differently: change one side, or merge with the"
            " strategy source-wins or dest-wins"
        )
        self.conflicts = conflicts
        """All conflicts in key order, with each side's change (see `CONFLICT_SCHEMA`)."""


class DirtyBranch(EngineError):
    """The branch has uncommitted changes; commit or reset them first."""

    kind = "dirty_branch"

    def __init__(self, branch: str) -> None:
        super().__init__(f"branch {branch} has uncommitted changes: commit or reset them first")


class NoChanges(EngineError):
    """Nothing to commit or merge."""

    kind = "no_changes"


class Protected(EngineError):
    """A rule protects the branch from the operation."""

    kind = "protected"

    def __init__(self, branch: str, pattern: str) -> None:
        super().__init__(
            f"branch {branch} is protected (rule '{pattern}'): commit to another branch and merge"
        )


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
    """The repository is being deleted."""

    kind = "deleting"

    def __init__(self, repository: str) -> None:
        super().__init__(f"repository {repository} is being deleted")


class Refused(EngineError):
    """A hook refused the operation."""

    kind = "refused"

    def __init__(self, message: str, *, by: str = "") -> None:
        """Make the error; `by` names the hook, by default the message's first line."""
        super().__init__(message)
        self.by = by or message.partition("\n")[0]


class CommitRefused(EngineError):
    """A hook refused this commit; no ref can be made to it."""

    kind = "commit_refused"

    def __init__(self, commit_id: str, by: str) -> None:
        super().__init__(
            f"commit {commit_id} was refused by {by}: no branch or tag can point to it"
        )


class TooManyTries(EngineError):
    """Concurrent changes of the same record won every time; nothing was lost, try again."""

    kind = "too_many_tries"

    def __init__(self, what: str, tries: int) -> None:
        super().__init__(f"{what} failed {tries} times because of concurrent changes: try again")


class GivenUp(EngineError):
    """The operation took too long, and another client undid it; try again."""

    kind = "given_up"

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} took so long that another process undid it: try again")


class CommitExpired(EngineError):
    """The commit has expired by the rules of its repository: its data may be deleted."""

    kind = "commit_expired"

    def __init__(self, commit: str, expired_us: int) -> None:
        super().__init__(
            f"commit {commit} expired on {to_datetime(expired_us):%Y-%m-%d} by the garbage"
            " collection rules of its repository: use a newer commit"
        )


class RefsLeftOut(EngineError):
    """A dump was restored without some of its refs; repeating the restore adds none."""

    kind = "refs_left_out"

    def __init__(self, dump_id: str, left_out: Sequence[str], count: int) -> None:
        """`left_out` are the first of `count` refs, each with the reason."""
        more = count - len(left_out)
        others = f", and {more} more (see the server's log)" if more else ""
        super().__init__(
            f"dump {dump_id} was restored except for {count} refs:"
            f" {'; '.join(left_out)}{others}; create these refs at commits that are kept"
        )


class TooManyExpire(EngineError):
    """More commits would expire at once than the caller allows; none expired."""

    kind = "too_many_expire"

    def __init__(self, count: int, known: int, max_share: float) -> None:
        super().__init__(
            f"{count} of {known} commits would expire, more than the allowed share of"
            f" {max_share:g}: none expired; check the garbage collection rules, or allow a"
            " larger share"
        )


class MissingFile(EngineError):
    """A referenced range or metarange is not in the storage."""

    kind = "missing_file"

    def __init__(self, file: str) -> None:
        super().__init__(f"{file} is missing from the storage")
        self.file = file
