"""Check that a branch is clean: no staged change differs from its head.

An operation that needs a clean branch seals the staging token first, and then scans the sealed
tokens. A token is only ever dropped after sealing and then scanning it: a writer may acknowledge
into the current token at any time.

*Clean* means that applying the tokens to the head changes no entry, by identity. Uploading an
object again with the same bytes, or adding and deleting an object, leaves a branch clean. Tokens
without effect are dropped by the operation's swap, or trimmed.

An operation may also keep staged changes (`seal`, `check_conflicts`). Then it drops no token and
must not change a staged key: the staged value would hide the change, and undo it with the next
commit.
"""

from typing import Final

import pyarrow as pa

from lakebed.engine.commits.publish import Publisher
from lakebed.engine.committed import CONFLICT_SCHEMA, ChangeType, CommittedFor
from lakebed.engine.errors import DirtyBranch, MergeConflict, TooManyTries
from lakebed.engine.keys import STAGED_PREFIX
from lakebed.engine.model import Branch, Repository
from lakebed.engine.refs.commits import Commits
from lakebed.engine.settings import EngineSettings
from lakebed.engine.staging.cells import Cells, decode, path_of
from lakebed.engine.staging.reader import Reader
from lakebed.engine.staging.scan import StagedChanges
from lakebed.formats import MetaRangeID
from lakebed.kv import Store

_PEEK: Final = 64


class UncommittedChanges:
    """Checks that branches are clean."""

    def __init__(
        self,
        store: Store,
        commits: Commits,
        reader: Reader,
        publisher: Publisher,
        committed_in: CommittedFor,
        settings: EngineSettings,
    ) -> None:
        self._store = store
        self._commits = commits
        self._reader = reader
        self._publisher = publisher
        self._committed_in = committed_in
        self._settings = settings

    def require_clean(self, repository: Repository, branch: Branch) -> Branch:
        """Return a branch whose sealed tokens all change nothing.

        The caller may drop these tokens, by a swap of the returned record.

        Raises:
            DirtyBranch: A staged change differs from the head.
            BranchNotFound: The branch was deleted or replaced concurrently.
            TooManyTries: Concurrent changes won every time.
        """
        current = branch
        for _ in range(self._settings.tries_max):
            is_full = len(current.sealed_tokens) >= self._settings.sealed_tokens_max
            pending = self._has_keys(current)
            if pending and not is_full:
                current = self._publisher.seal(repository, current)
                pending = False
            if current.sealed_tokens and self._has_effect(repository, current):
                raise DirtyBranch(branch.id)
            if not pending:
                return current
            # The list is full of tokens without effect: make room for the token to seal.
            moved_on = self._publisher.trim(repository, current, current.sealed_tokens)
            current = moved_on or self._publisher.reread(repository, branch)
        raise TooManyTries(f"the check that branch {branch.id} is clean", self._settings.tries_max)

    def seal(self, repository: Repository, branch: Branch) -> Branch:
        """Seal the staged changes of a branch, unless its list of sealed tokens is full.

        Raises as `Publisher.seal`.
        """
        is_full = len(branch.sealed_tokens) >= self._settings.sealed_tokens_max
        if is_full or not self._has_keys(branch):
            return branch
        return self._publisher.seal(repository, branch)

    def check_conflicts(
        self, repository: Repository, branch: Branch, before: MetaRangeID, after: MetaRangeID
    ) -> None:
        """Raise `MergeConflict` if staged keys conflict with the difference of two metaranges.

        Staged changes equal to the second metarange do no harm.
        """
        if before == after:
            return
        staged = StagedChanges(Cells.of(self._store, branch)).pairs()
        pair = next(staged, None)
        conflicts = []
        for table in self._committed_in(repository.files_root).diff(before, after):
            columns = (table.column(name).to_pylist() for name in ("key", "change", "identity"))
            for key, change, identity in zip(*columns, strict=True):
                while pair is not None and path_of(pair[0]) < key:
                    pair = next(staged, None)
                if pair is None:
                    break
                if path_of(pair[0]) != key:
                    continue
                found = decode(key, pair[1])
                wanted = None if change == ChangeType.REMOVED else identity
                if (found and found.identity) != wanted:
                    kind = ChangeType.CHANGED if found else ChangeType.REMOVED
                    conflicts.append((key, change, int(kind)))
        if conflicts:
            arrays = list(zip(*conflicts, strict=True))
            raise MergeConflict(pa.table(arrays, schema=CONFLICT_SCHEMA))

    def _has_keys(self, branch: Branch) -> bool:
        """Whether any change or proposal is staged; sealing for a proposal alone does no harm."""
        token = branch.staging_token.encode()
        return next(self._store.scan(token, STAGED_PREFIX, limit=1), None) is not None

    def _has_effect(self, repository: Repository, branch: Branch) -> bool:
        """Whether the sealed tokens change the head; cheap if one of their first keys does."""
        sealed = Cells(self._store, branch.sealed_tokens)
        for name, value in StagedChanges(sealed).begin(_PEEK):
            key = path_of(name)
            staged = decode(key, value)
            committed = self._reader.committed(repository, branch.commit_id, key)
            if (staged and staged.identity) != (committed and committed.identity):
                return True
        head = self._commits.get(repository, branch.commit_id)
        committed_entries = self._committed_in(repository.files_root)
        applied = committed_entries.apply(head.metarange_id, StagedChanges(sealed).tables())
        return bool(applied.summary)
