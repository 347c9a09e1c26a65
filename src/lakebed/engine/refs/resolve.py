"""Ref expressions: resolve user input to a branch or a commit.

    main            the branch: its commit and its staged changes
    main@           its commit alone
    main$           its staged changes alone
    v1.0            a tag
    3f2a…           a commit, by its id or a unique prefix of it
    main~3          its first parent's first parent's first parent; ~ alone is ~1
    main^2          its second parent; ^ alone is ^1, and ^0 the commit itself
    v1.0~2^2~1      and so on, from left to right

A full commit id always means the commit: no branch or tag may have such a name. Any other name is
looked up as a branch, then as a tag, then as the prefix of an id; the first match wins.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import islice
from typing import Final

from lakebed.base.errors import LakebedError
from lakebed.base.runtime import Runtime, now_us
from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import (
    BranchNotFound,
    CommitNotFound,
    CommitRefused,
    InvalidName,
    InvalidRef,
    RefNotFound,
    Refused,
    TagNotFound,
)
from lakebed.engine.keys import BRANCHES, LIVE, REFUSALS, TAGS
from lakebed.engine.model import (
    COMMIT_ID,
    Branch,
    BranchID,
    Commit,
    CommitID,
    Repository,
    Tag,
    TagID,
    check_branch_name,
    check_tag_name,
)
from lakebed.engine.refs.branches import Branches, Tags
from lakebed.engine.refs.commits import Commits
from lakebed.kv import Item, Store
from lakebed.kv.records import Records

SHORTEST_PREFIX: Final = 6
"""With fewer digits of a commit id, a typing error could easily match another commit."""

_ID_LENGTH: Final = 64
_COMMIT: Final = re.compile(f"[0-9a-f]{{{SHORTEST_PREFIX},{_ID_LENGTH}}}")
# Nine digits exceed the length of any history, and stay below Python's limit.
_EXPRESSION: Final = re.compile(r"([^~^@$]+)((?:[~^][0-9]{0,9})*)([@$]?)")
_STEP: Final = re.compile(r"([~^])([0-9]*)")
_NAMED_WHEN_AMBIGUOUS: Final = 3


def may_name_commit(expression: str) -> bool:
    """Whether a well-formed expression begins with a commit id, or a prefix of one."""
    return _COMMIT.fullmatch(_parse(expression)[0]) is not None


class View(Enum):
    """The part of a branch that an expression selects; tags and commits have only the commit."""

    COMBINED = "combined"
    """The commit and the changes staged over it."""
    COMMITTED = "committed"
    STAGED = "staged"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRef:
    """Result of resolving an expression."""

    commit_id: CommitID
    branch: Branch | None
    """The branch as read, if the expression names it and not an ancestor of its head."""
    view: View
    """`COMMITTED` if the expression names no branch."""


class Resolver:
    """Resolves ref expressions."""

    def __init__(self, branches: Branches, tags: Tags, commits: Commits) -> None:
        self._branches = branches
        self._tags = tags
        self._commits = commits

    def resolve(self, repository: Repository, expression: str) -> ResolvedRef:
        """Resolve an expression; branches are read from the store.

        Raises:
            InvalidRef: It is not well formed, selects the staged part of a tag or commit, or is an
                ambiguous prefix.
            RefNotFound: No branch, tag or commit matches, or a parent does not exist.
        """
        name, _ = branch_in(expression)
        branch = None if name is None else self._find_branch(repository, name)
        return self.follow(repository, expression, branch)

    def follow(self, repository: Repository, expression: str, branch: Branch | None) -> ResolvedRef:
        """Resolve an expression, given the branch it begins with, or None; raises as `resolve`."""
        base, steps, view = _parse(expression)
        is_id = COMMIT_ID.fullmatch(base) is not None
        if branch is not None and not steps:
            return ResolvedRef(commit_id=branch.commit_id, branch=branch, view=view)
        named = branch or (None if is_id else self._find_tag(repository, base))
        commit_id = named.commit_id if named else self._find_commit(repository, base)
        if view is not View.COMBINED:
            raise InvalidRef(f"{expression}: only a branch can be followed by @ or $")
        for step in steps:
            commit_id = self._follow(repository, commit_id, step, expression)
        return ResolvedRef(commit_id=commit_id, branch=None, view=View.COMMITTED)

    def commit(self, repository: Repository, expression: str) -> Commit:
        """Return the commit of an expression; for a branch, its head. Raises as `resolve`.

        Raises `InvalidRef` also for staged changes, which have no commit.
        """
        return self._commits.get(repository, self.commit_id(repository, expression))

    def commit_id(self, repository: Repository, expression: str) -> CommitID:
        """Return the id of the commit of an expression; raises as `commit`."""
        resolved = self.resolve(repository, expression)
        if resolved.view is View.STAGED:
            raise InvalidRef(
                f"{expression} means the staged changes of a branch: use a branch, a tag or a"
                " commit"
            )
        return resolved.commit_id

    def not_a_branch(self, repository: Repository, name: BranchID) -> BranchNotFound:
        """Return the error for the name of a missing branch, which may mean a tag or commit."""
        try:
            resolved = self.resolve(repository, name)
        except (InvalidRef, RefNotFound):
            return BranchNotFound(name)
        if resolved.branch is not None:
            is_created = resolved.branch.id == name
            return BranchNotFound(
                name, "" if is_created else f"a view of branch {resolved.branch.id}"
            )
        is_tag = self._find_tag(repository, name) is not None
        return BranchNotFound(name, "a tag" if is_tag else "a commit")

    def places(self, repository: Repository, expression: str) -> list[tuple[bytes, bytes]] | None:
        """Return the places of the records that decide a plain name, or None for other expressions.

        For callers that read other records in the same call; see `commit_in`. Raises `InvalidRef`
        if the expression is not well formed.
        """
        base, steps, view = _parse(expression)
        if steps or view is not View.COMBINED or COMMIT_ID.fullmatch(base):
            return None
        name = base.encode()
        return [
            (repository.partition, BRANCHES.prefix + name),
            (repository.partition, TAGS.prefix + name),
        ]

    def commit_in(self, found: Sequence[Item | None]) -> CommitID | None:
        """Return the commit of the records at `places`, or None if both are missing."""
        branch, tag = found
        named: list[pb.Branch | pb.Tag] = []
        if branch is not None:
            named.append(pb.Branch.FromString(branch.value))
        if tag is not None:
            named.append(pb.Tag.FromString(tag.value))
        return next((CommitID(each.commit_id) for each in named if each.state == LIVE), None)

    def _find_branch(self, repository: Repository, name: str) -> Branch | None:
        try:
            return self._branches.get(repository, check_branch_name(name))
        except (InvalidName, BranchNotFound):
            return None

    def _find_tag(self, repository: Repository, name: str) -> Tag | None:
        try:
            return self._tags.get(repository, TagID(name))
        except TagNotFound:
            return None

    def _find_commit(self, repository: Repository, name: str) -> CommitID:
        if not _COMMIT.fullmatch(name):
            raise RefNotFound(name)
        if COMMIT_ID.fullmatch(name):
            try:
                return self._commits.get(repository, CommitID(name)).id
            except CommitNotFound:
                raise RefNotFound(name) from None
        return self._find_prefix(repository, name)

    def _find_prefix(self, repository: Repository, prefix: str) -> CommitID:
        some = islice(self._commits.with_prefix(repository, prefix), _NAMED_WHEN_AMBIGUOUS + 1)
        ids = [commit.id for commit in some]
        if not ids:
            raise RefNotFound(prefix)
        if len(ids) > 1:
            named = ", ".join(ids[:_NAMED_WHEN_AMBIGUOUS])
            others = " and others" if len(ids) > _NAMED_WHEN_AMBIGUOUS else ""
            raise InvalidRef(
                f"{prefix} is ambiguous: it matches commits {named}{others}; give more of the id"
            )
        return ids[0]

    def _follow(
        self, repository: Repository, commit_id: CommitID, step: tuple[str, int], expression: str
    ) -> CommitID:
        kind, number = step
        times, place = (number, 1) if kind == "~" else (min(number, 1), number)
        for _ in range(times):
            parents = self._commits.get(repository, commit_id).parents
            if place > len(parents):
                count = f"{len(parents)} parent{'' if len(parents) == 1 else 's'}"
                reason = f"commit {commit_id} has {count}, not {place}"
                if not parents:
                    reason = f"the history has fewer commits: {commit_id} is the first"
                raise RefNotFound(f"{expression} ({reason})")
            commit_id = parents[place - 1]
        return commit_id


@lru_cache(maxsize=1024)
def branch_in(expression: str) -> tuple[BranchID | None, View | None]:
    """Return the branch an expression may begin with, and its selected part.

    The branch is None if the expression begins with a full commit id; the view is None if the
    expression continues from the branch to an ancestor. Raises `InvalidRef` for an expression that
    is not well formed.
    """
    base, steps, view = _parse(expression)
    if COMMIT_ID.fullmatch(base):
        return None, None
    return BranchID(base), None if steps else view


@lru_cache(maxsize=1024)
def _parse(expression: str) -> tuple[str, tuple[tuple[str, int], ...], View]:
    match = _EXPRESSION.fullmatch(expression)
    if match is None:
        raise InvalidRef(
            f"'{expression}' is not a valid reference: give a branch, a tag or a commit id, then"
            " any of ~, ^, ~number and ^number; or a branch followed by @ or $"
        )
    base, steps, view = match.groups()
    try:
        # Every valid branch name or id prefix is also a valid tag name.
        if not COMMIT_ID.fullmatch(base):
            check_tag_name(base)
    except InvalidName:
        raise InvalidRef(f"'{base}' is not a valid branch, tag or commit id") from None
    numbers = tuple((kind, int(number or 1)) for kind, number in _STEP.findall(steps))
    return base, numbers, _VIEWS[view]


_VIEWS: Final = {"": View.COMBINED, "@": View.COMMITTED, "$": View.STAGED}


_LOGGER: Final = logging.getLogger(__name__)


class Refusals:
    """The commits that hooks refused, in all repositories.

    The record of a refused commit stays: hooks were told its id, and runs reference it. No branch
    leads to the commit, and no ref may: `check` runs before a ref is set to a commit given by its
    id. (For a source that is a branch or a tag, no record is read.)

    The check applies only after the refusal was recorded: a ref created at a commit while hooks run
    survives a refusal. A process that dies after a refusal, before recording it, leaves a commit
    like that of a dead committer: on no branch, and not marked.
    """

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime

    def note(self, repository: Repository, commit_id: CommitID, refused: Refused) -> None:
        """Record that a hook refused a commit. Never raises: the caller has an error to raise."""
        try:
            message = pb.Refusal(by=refused.by, refused_us=now_us(self._runtime))
            self._records(repository).set(commit_id.encode(), message)
        except LakebedError as error:
            _LOGGER.warning("cannot record that commit %s was refused: %s", commit_id, error)

    def find(self, repository: Repository, ref: str, commit_id: CommitID) -> str | None:
        """Return the hook that refused the commit of a ref, or None."""
        if not may_name_commit(ref):
            return None
        record = self._records(repository).find(commit_id.encode())
        return None if record is None else record.message.by

    def check(self, repository: Repository, ref: str, commit_id: CommitID) -> None:
        """Raise `CommitRefused` if a hook refused the commit that a ref is to be created at."""
        by = self.find(repository, ref, commit_id)
        if by is not None:
            raise CommitRefused(commit_id, by)

    def _records(self, repository: Repository) -> Records[pb.Refusal]:
        return Records(self._store, REFUSALS, repository.partition)
