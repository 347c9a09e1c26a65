"""Changes to branch heads: commit, merge, revert, cherry-pick, reset."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from lakebed.base.tracing import traced
from lakebed.engine.commits.requests import CommitRequest, CommitResult, MergeRequest
from lakebed.engine.committed import Strategy
from lakebed.engine.engine import Engine
from lakebed.engine.errors import BranchNotFound, Invalid
from lakebed.engine.model import (
    WORDS_BYTES_MAX,
    Branch,
    BranchID,
    Commit,
    Repository,
    RepositoryID,
    size_of,
)
from lakebed.formats import MetaRangeID
from lakebed.lake.errors import InvalidMetadata

ORIGIN_KEY: Final = "cherry-pick-origin"
ORIGIN_COMMITTER_KEY: Final = "cherry-pick-committer"
"""Metadata keys of a cherry-picked commit: the original commit and its committer."""

RESERVED: Final = ".lakebed."
"""Prefix of commit metadata keys reserved for Lakebed; not copied to other commits."""
PULL_REQUEST_KEY: Final = f"{RESERVED}pull_request"
"""Metadata key of a merge commit that holds the id of its pull request."""


STRATEGY_KEY: Final = ".lakefs.merge.strategy"
"""Metadata key of a merge commit that holds its strategy."""
DEFAULT_STRATEGY: Final = "default"
STRATEGIES: Final[Mapping[str, Strategy | None]] = {
    "": None,
    "dest-wins": Strategy.DEST_WINS,
    "source-wins": Strategy.SOURCE_WINS,
}
"""Merge strategies by the names known to clients: the side that wins a conflict, if any."""


def default_message(source: str, destination: str) -> str:
    """Return the message of a merge without a message of its own."""
    return f"Merge '{source}' into '{destination}'"


def merge_request(
    source: str,
    destination: str,
    *,
    committer: str,
    message: str,
    metadata: Mapping[str, str],
    strategy: str,
    squash: bool,
    allow_empty: bool,
    keep_staged: bool = False,
) -> MergeRequest:
    """Build the request for a merge.

    Raises:
        Invalid: `strategy` is not a key of `STRATEGIES`.
    """
    if strategy not in STRATEGIES:
        choices = ", ".join(f"'{each}'" for each in STRATEGIES)
        raise Invalid(f"invalid strategy '{strategy}': use one of {choices}")
    return MergeRequest(
        committer=committer,
        message=message or default_message(source, destination),
        metadata={**metadata, STRATEGY_KEY: strategy or DEFAULT_STRATEGY},
        strategy=STRATEGIES[strategy],
        squash=squash,
        allow_empty=allow_empty,
        keep_staged=keep_staged,
    )


def check_commit_words(message: str, metadata: Mapping[str, str]) -> None:
    """Raise `InvalidMetadata` if a text is too long, or a metadata key has the reserved prefix."""
    if (size := len(message.encode())) > WORDS_BYTES_MAX:
        raise InvalidMetadata(
            f"the commit message has {size} bytes; at most {WORDS_BYTES_MAX} are allowed"
        )
    if (size := size_of(metadata)) > WORDS_BYTES_MAX:
        raise InvalidMetadata(
            f"the commit metadata has {size} bytes of names and values; at most {WORDS_BYTES_MAX}"
            " are allowed"
        )
    for name in metadata:
        if name.startswith(RESERVED):
            raise InvalidMetadata(
                f"commit metadata cannot have the name '{name}': names that begin with '{RESERVED}'"
                " are reserved for Lakebed"
            )


def find_source(engine: Engine, repository: Repository, ref: str) -> Commit:
    """Return the commit of a ref before a branch is pointed to it.

    Raises `CommitRefused` if a hook refused the commit.
    """
    commit = engine.resolver.commit(repository, ref)
    engine.refusals.check(repository, ref, commit.id)
    return commit


class HeadChanges:
    """Changes branch heads and discards uncommitted changes.

    All methods raise `RepositoryNotFound`, `BranchNotFound`, `ReadOnly` or `Protected` if the
    branch cannot be changed, and `InvalidMetadata` for a message or metadata that clients cannot
    give to a commit. See `Committer`, `Merger` and `Resetter` for further errors.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @traced("catalog.commit")
    def commit(
        self,
        repository_id: RepositoryID,
        branch: BranchID,
        request: CommitRequest,
        *,
        source_metarange: str | None = None,
    ) -> CommitResult:
        """Commit the uncommitted changes of a branch, or an existing metarange."""
        check_commit_words(request.message, request.metadata)
        engine = self._engine
        opened = engine.readings.to_write(repository_id, branch)
        repository = opened.repository
        if source_metarange is None:
            engine.forecast.count_commit()
            known = opened.branch
            return engine.committer.commit(repository, branch, request, known=known)
        source = MetaRangeID(source_metarange)
        return CommitResult(engine.merger.commit_metarange(repository, branch, source, request))

    @traced("catalog.merge")
    def merge(
        self, repository_id: RepositoryID, source: str, branch: BranchID, request: MergeRequest
    ) -> Commit:
        """Merge the commit that a ref points to now into a branch."""
        check_commit_words(request.message, request.metadata)
        repository = self._engine.repositories.get_writable(repository_id)
        ends = self._read_ends(repository, source, branch)
        if ends is None:
            ends = find_source(self._engine, repository, source), None
        commit, known = ends
        return self._engine.merger.merge(
            repository, branch, commit, request, source_ref=source, known=known
        )

    def _read_ends(
        self, repository: Repository, source: str, branch: BranchID
    ) -> tuple[Commit, Branch | None] | None:
        """Read a source commit and a destination branch with two store calls.

        Returns:
            None if either does not exist, or the ref takes more calls to resolve.
        """
        engine = self._engine
        places = engine.resolver.places(repository, source)
        if places is None:
            return None
        try:
            destination, named = engine.branches.get_with(repository, branch, places)
        except BranchNotFound:
            return None
        source_id = engine.resolver.commit_in(named)
        if source_id is None:
            return None
        commits = engine.commits.get_all(repository, [source_id, destination.commit_id])
        return commits[0], destination

    @traced("catalog.revert")
    def revert(
        self,
        repository_id: RepositoryID,
        branch: BranchID,
        ref: str,
        request: CommitRequest,
        *,
        parent_number: int | None = None,
    ) -> Commit:
        """Undo on a branch the changes of a commit relative to one of its parents."""
        check_commit_words(request.message, request.metadata)
        repository = self._engine.repositories.get_writable(repository_id)
        self._engine.protection.check_strict(repository, branch)
        commit = self._engine.resolver.commit(repository, ref)
        return self._engine.merger.revert(
            repository, branch, commit, request, parent_number=parent_number
        )

    @traced("catalog.cherry_pick")
    def cherry_pick(
        self,
        repository_id: RepositoryID,
        branch: BranchID,
        ref: str,
        *,
        committer: str,
        message: str | None = None,
        metadata: Mapping[str, str] | None = None,
        parent_number: int | None = None,
    ) -> Commit:
        """Apply the changes of a commit to a branch.

        Message and metadata default to the original's; reserved metadata keys name the original.
        If the branch already has all of the changes, the new commit is empty: a client that picks
        a list of commits, or retries after a lost reply, is not stopped by commits picked before.
        """
        check_commit_words(message or "", metadata or {})
        repository = self._engine.repositories.get_writable(repository_id)
        self._engine.protection.check_strict(repository, branch)
        origin = self._engine.resolver.commit(repository, ref)
        request = CommitRequest(
            committer=committer,
            message=message or origin.message,
            metadata={
                **{
                    name: value
                    for name, value in origin.metadata.items()
                    if not name.startswith(RESERVED)
                },
                ORIGIN_KEY: origin.id,
                ORIGIN_COMMITTER_KEY: origin.committer,
                **(metadata or {}),
            },
            allow_empty=True,
        )
        return self._engine.merger.cherry_pick(
            repository, branch, origin, request, parent_number=parent_number
        )

    # Resets

    @traced("catalog.reset")
    def reset(self, repository_id: RepositoryID, branch: BranchID) -> None:
        """Discard all uncommitted changes of a branch."""
        repository = self._engine.readings.to_write(repository_id, branch).repository
        self._engine.resetter.reset(repository, branch)

    @traced("catalog.reset_object")
    def reset_object(self, repository_id: RepositoryID, branch: BranchID, path: bytes) -> None:
        """Discard the uncommitted change of one path."""
        repository = self._engine.readings.to_write(repository_id, branch).repository
        self._engine.resetter.reset_key(repository, branch, path)

    @traced("catalog.reset_prefix")
    def reset_prefix(self, repository_id: RepositoryID, branch: BranchID, prefix: bytes) -> None:
        """Discard the uncommitted changes of all paths with a prefix."""
        repository = self._engine.readings.to_write(repository_id, branch).repository
        self._engine.resetter.reset_prefix(repository, branch, prefix)

    @traced("catalog.hard_reset")
    def hard_reset(self, repository_id: RepositoryID, branch: BranchID, ref: str) -> None:
        """Point a branch without uncommitted changes to the commit of a ref."""
        repository = self._engine.readings.to_write(repository_id, branch).repository
        target = find_source(self._engine, repository, ref)
        before_try = partial(self._engine.hooks.before_leaving, repository)
        self._engine.resetter.hard_reset(repository, branch, target, before_try)
