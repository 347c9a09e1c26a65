"""From a content to a new head: stored, checked, offered to hooks, and then published.

The order is the same for every operation:

1. **Store** the commit's record, D. From then on the record protects the content.
2. **Look at the scan limit**, once: garbage collection reads commit records after staged entries,
   and may have missed what is only in a scan that is too old.
3. **Check the sources** (`check_sources`). Until then nobody is told the id of D.
4. **Offer** D to hooks. They can read it, and may refuse it. A hook may take long.
5. **Note** the id, where the caller asked for that.
6. **Publish** D by a swap of the branch record that D was made for.

What hooks approved is what is published: if the branch has moved, but the content and the parents
would be the same again, it is the *same* record that is tried again, never an equal one. Any other
content is stored, checked and offered anew. (A record that is tried again may have expired while
the branch was elsewhere, so its own mark is looked at before that.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lakebed.engine.acting import acting_user, are_hooks_skipped
from lakebed.engine.commits.publish import Publisher
from lakebed.engine.commits.sources import check_sources
from lakebed.engine.errors import CommitExpired, Refused
from lakebed.engine.hooks import Hooks, Offer
from lakebed.engine.model import Branch, BranchID, Commit, CommitID, Repository, StagingToken
from lakebed.engine.refs.branches import Branches
from lakebed.engine.refs.commits import Commits
from lakebed.engine.refs.refusals import Refusals
from lakebed.engine.retention.marks import Marks
from lakebed.formats import MetaRangeID
from lakebed.kv.store import Placed

HOOKS_SKIPPED: Final = ".lakebed.hooks_skipped_by"
"""In the metadata of a commit that no hook was asked about: the user who wanted it so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a request says of the commit that it wants."""

    operation: str
    """See `Offer`."""
    committer: str
    message: str
    metadata: dict[str, str]
    created_us: int | None = None
    merge_source: str = ""
    """The source of a merge, as it was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a new head would hold."""

    metarange_id: MetaRangeID
    parents: Sequence[Commit]
    """The first is the head whose place it takes."""
    judge: Commit | None = None
    """The commit that holds the rules for it; None: the new commit itself."""
    sources: tuple[CommitID, ...] = ()
    """The commits beside the first parent whose content it takes."""


class OfferDesk:
    """Makes the offers of requests; one for a process."""

    def __init__(
        self,
        branches: Branches,
        commits: Commits,
        publisher: Publisher,
        hooks: Hooks,
        marks: Marks,
        refusals: Refusals,
    ) -> None:
        self.branches = branches
        self.commits = commits
        self.publisher = publisher
        self.hooks = hooks
        self.marks = marks
        self.refusals = refusals

    def begin(self, repository: Repository, wish: Wish) -> "Offers":
        """Return the offers of a new request: none yet."""
        if are_hooks_skipped():
            metadata = {**wish.metadata, HOOKS_SKIPPED: acting_user()}
            wish = replace(wish, metadata=metadata)
        return Offers(self, repository, wish)


class Offers:
    """The commits that one request has stored, and offered to hooks."""

    def __init__(self, desk: OfferDesk, repository: Repository, wish: Wish) -> None:
        self._desk = desk
        self._repository = repository
        self._wish = wish
        self._made: dict[tuple[MetaRangeID, tuple[CommitID, ...]], Offer] = {}

    def make(
        self,
        branch: Branch,
        draft: Draft,
        tokens: Sequence[StagingToken],
        *,
        is_scan_young: Callable[[], bool] = lambda: True,
    ) -> Offer | None:
        """Store a commit and offer it; what was offered before is returned as it was.

        Args:
            branch: The branch record that the draft was made for.
            draft: What the commit holds.
            tokens: The tokens that publishing the commit will drop.
            is_scan_young: Whether the content may still be believed; asked when it is stored.

        Returns:
            None if the content is too old by now, or the head is not that of the branch any more:
            then nobody was told of it. The caller reads the branch again.

        Raises:
            CommitExpired: The data of a source is not kept any more.
            Refused: A hook refused it.
        """
        key = draft.metarange_id, tuple(parent.id for parent in draft.parents)
        made = self._made.get(key)
        if made is not None and self._is_kept(made.commit):
            if tokens:
                self._desk.branches.announce_drop(self._repository, branch.id, tokens)
            return made
        commit = self._store(branch.id, draft, tokens)
        if not is_scan_young():
            return None
        if not check_sources(self._desk.marks, self._repository, commit):
            return None
        offer = Offer(
            operation=self._wish.operation,
            repository=self._repository,
            branch=branch.id,
            branch_unique_id=branch.unique_id,
            commit=commit,
            head=draft.parents[0],
            judge=draft.judge or commit,
            merge_source=self._wish.merge_source,
            number=len(self._made) + 1,
        )
        try:
            self._desk.hooks.before_commit(offer)
        except Refused as refused:
            self._desk.refusals.note(self._repository, commit.id, refused)
            raise
        self._made[key] = offer
        return offer

    def publish(
        self,
        offer: Offer,
        branch: Branch,
        tokens: Sequence[StagingToken],
        note: Callable[[Commit], None] | None = None,
    ) -> Branch | None:
        """Try to make an offered commit the head; returns as `Publisher.publish` does."""
        if note is not None:
            note(offer.commit)
        self._desk.hooks.before_publish(offer)
        publisher = self._desk.publisher
        moved_on = publisher.publish(self._repository, branch, offer.commit, tokens)
        if moved_on is None:
            self._desk.hooks.after_commit(offer)
        return moved_on

    def _is_kept(self, commit: Commit) -> bool:
        """Whether a commit that was offered before has not expired, and will not now."""
        try:
            self._desk.marks.check_named(self._repository, commit.id)
        except CommitExpired:
            return False
        return True

    def _store(self, branch: BranchID, draft: Draft, tokens: Sequence[StagingToken]) -> Commit:
        wish = self._wish

        def add(beside: Sequence[Placed]) -> Commit:
            return self._desk.commits.add(
                self._repository,
                committer=wish.committer,
                message=wish.message,
                metarange_id=draft.metarange_id,
                parents=draft.parents,
                metadata=wish.metadata,
                created_us=wish.created_us,
                consumed_tokens=tokens,
                branch=branch,
                sources=draft.sources,
                beside=beside,
            )

        return self._desk.publisher.store_commit(self._repository, branch, tokens, add)
