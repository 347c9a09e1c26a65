"""What the engine asks before and after operations, answered by the action files of repositories.

Which files count for which event:

| event                              | action files are read from                                  |
|------------------------------------|-------------------------------------------------------------|
| prepare-commit, pre-commit         | the branch with what is staged                              |
| pre-revert, pre-cherry-pick        | the branch                                                  |
| pre-merge                          | the source                                                  |
| post-commit, -merge, -revert, …    | the new commit                                              |
| create and delete, pre and post    | the commit of the branch or the tag                         |

Runs of post events are written down *before* the operation takes effect (`Runs.prepare`) and
confirmed after it. See `post` for what becomes of those that nobody confirms.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from lakebed.engine.engine import Engine
from lakebed.engine.errors import Refused
from lakebed.engine.hooks import Hooks, Offer, Preparation
from lakebed.engine.model import Branch, BranchID, Commit, CommitID, Repository, TagID
from lakebed.errors import LakebedError
from lakebed.formats import MetaRangeID
from lakebed.hooks import records_pb2 as pb
from lakebed.hooks.acting import acting_user
from lakebed.hooks.errors import InvalidAction
from lakebed.hooks.events import EventType
from lakebed.hooks.files import Action
from lakebed.hooks.keys import RunID
from lakebed.hooks.matching import select
from lakebed.hooks.metrics import HOOK_RUNS
from lakebed.hooks.reading import ActionReader
from lakebed.hooks.runner import Failure, Runner
from lakebed.hooks.runs import NotOurs, Runs
from lakebed.kv import Version
from lakebed.lru import LRU
from lakebed.runtime import Runtime

OFFERS_MAX: Final = 5
"""How many contents of one request hooks are asked about: a hook that changes its own branch, or a
branch that never rests, would keep the request for ever."""

_UNDER_WAY: Final = 10_000

_EVENTS: Final[Mapping[str, tuple[EventType, EventType]]] = {
    "commit": (EventType.PRE_COMMIT, EventType.POST_COMMIT),
    "import": (EventType.PRE_COMMIT, EventType.POST_COMMIT),
    "merge": (EventType.PRE_MERGE, EventType.POST_MERGE),
    "revert": (EventType.PRE_REVERT, EventType.POST_REVERT),
    "cherry-pick": (EventType.PRE_CHERRY_PICK, EventType.POST_CHERRY_PICK),
}
_LOGGER: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class _UnderWay:
    """An operation that was approved, and has not ended yet."""

    pre_run_id: str = ""
    post_run_id: RunID | None = None
    has_looked: bool = False
    """Whether it is known if there is anything to run afterwards."""


@dataclass(frozen=True, slots=True)
class GuardParts:
    """What a guard works with. The engine is among it, and needs the guard first."""

    engine: Engine
    reader: ActionReader
    runs: Runs
    runner: Runner
    while_waiting: Callable[[], AbstractContextManager[None]]
    """Entered while an operation waits for hooks."""
    on_waiting: Callable[[], object]
    """Called whenever a run waits."""


class Guard(Hooks):
    """The hooks of the engine, for repositories that have action files."""

    def __init__(self, runtime: Runtime) -> None:
        self._parts: GuardParts | None = None
        self._under_way: LRU[tuple[bytes, str], _UnderWay] = LRU(runtime, cost_max=_UNDER_WAY)

    def attach(self, parts: GuardParts) -> None:
        """Begin to work; before this, no operation may be asked for."""
        self._parts = parts

    @property
    def _with(self) -> GuardParts:
        assert self._parts is not None, "the guard is attached before operations are asked for"
        return self._parts

    # Commits

    def prepare_commit(self, preparation: Preparation) -> bool:
        run = pb.Run(
            event_type=EventType.PREPARE_COMMIT,
            metarange_id=preparation.metarange_id,
            source_ref=preparation.branch,
            branch=preparation.branch,
            committer=preparation.committer,
            message=preparation.message,
            metadata=preparation.metadata,
            username=acting_user() or preparation.committer,
        )
        return bool(self._ask(preparation.repository, run))

    def before_commit(self, offer: Offer) -> None:
        before, _ = _EVENTS[offer.operation]
        run = _run_of(offer, before, offer.judge.metarange_id)
        run.source_ref = offer.judge.id if before is EventType.PRE_MERGE else offer.branch
        under_way = _UnderWay(pre_run_id=self._ask(offer.repository, run, offer.number))
        self._under_way.put((offer.repository.partition, offer.commit.id), under_way)

    def before_publish(self, offer: Offer) -> None:
        key = offer.repository.partition, offer.commit.id
        under_way = self._under_way.get(key) or _UnderWay()
        self._under_way.put(key, under_way)
        runs = self._with.runs
        if under_way.post_run_id is not None:
            if runs.stays_prepared(offer.repository, under_way.post_run_id):
                return
        elif under_way.has_looked:
            return
        _, after = _EVENTS[offer.operation]
        run = _run_of(offer, after, offer.commit.metarange_id)
        run.source_ref = offer.commit.id
        run.branch_unique_id = offer.branch_unique_id
        run.pre_run_id = under_way.pre_run_id
        under_way.post_run_id = self._prepare(offer.repository, run)
        under_way.has_looked = True

    def after_commit(self, offer: Offer) -> None:
        self._confirm(offer.repository, offer.commit.id)

    # Branches

    def before_create_branch(
        self, repository: Repository, branch: BranchID, commit_id: CommitID, source: str
    ) -> None:
        run = self._ref_run(repository, commit_id, source_ref=source, branch=branch)
        run.commit_id = commit_id
        pair = EventType.PRE_CREATE_BRANCH, EventType.POST_CREATE_BRANCH
        self._ask_both(repository, run, pair, f"+{branch}")

    def after_create_branch(self, repository: Repository, branch: BranchID) -> None:
        self._confirm(repository, f"+{branch}")

    def before_delete_branch(self, repository: Repository, branch: Branch) -> None:
        run = self._ref_run(
            repository, branch.commit_id, source_ref=branch.commit_id, branch=branch.id
        )
        run.branch_unique_id = branch.unique_id
        pair = EventType.PRE_DELETE_BRANCH, EventType.POST_DELETE_BRANCH
        self._ask_both(repository, run, pair, branch.unique_id)

    def after_delete_branch(self, repository: Repository, branch: Branch) -> None:
        self._confirm(repository, branch.unique_id)

    # Tags

    def before_create_tag(self, repository: Repository, tag: TagID, commit_id: CommitID) -> None:
        run = self._ref_run(repository, commit_id, source_ref=commit_id, tag=tag)
        run.commit_id = commit_id
        pair = EventType.PRE_CREATE_TAG, EventType.POST_CREATE_TAG
        self._ask_both(repository, run, pair, f"+{tag}")

    def after_create_tag(self, repository: Repository, tag: TagID, commit_id: CommitID) -> None:
        del commit_id
        self._confirm(repository, f"+{tag}")

    def before_delete_tag(
        self, repository: Repository, tag: TagID, commit_id: CommitID, version: Version
    ) -> None:
        run = self._ref_run(repository, commit_id, source_ref=commit_id, tag=tag)
        run.commit_id = commit_id
        run.tag_version = version
        pair = EventType.PRE_DELETE_TAG, EventType.POST_DELETE_TAG
        self._ask_both(repository, run, pair, version.hex())

    def after_delete_tag(self, repository: Repository, tag: TagID, version: Version) -> None:
        del tag
        self._confirm(repository, version.hex())

    # Steps

    def _ref_run(
        self,
        repository: Repository,
        commit_id: CommitID,
        *,
        source_ref: str,
        branch: str = "",
        tag: str = "",
    ) -> pb.Run:
        commit = self._with.engine.commits.get(repository, commit_id)
        return pb.Run(
            metarange_id=commit.metarange_id,
            source_ref=source_ref,
            branch=branch,
            tag=tag,
            username=acting_user(),
        )

    def _ask_both(
        self, repository: Repository, run: pb.Run, pair: tuple[EventType, EventType], key: str
    ) -> None:
        """Run what comes before an operation, and prepare what comes after it."""
        run.event_type = pair[0]
        run.pre_run_id = self._ask(repository, run)
        run.event_type = pair[1]
        post_run_id = self._prepare(repository, run)
        if post_run_id is not None:
            self._under_way.put((repository.partition, key), _UnderWay(post_run_id=post_run_id))

    def _ask(self, repository: Repository, run: pb.Run, number: int = 1) -> str:
        """Run the hooks of an event; return the run's id, or nothing if there are none.

        Raises:
            Refused: A hook failed, or an action file cannot be used.
        """
        actions = self._actions(repository, run)
        if not actions:
            return ""
        if number > OFFERS_MAX:
            raise Refused(
                f"branch {run.branch} changed {OFFERS_MAX} times while {run.event_type} hooks ran:"
                " try again when it rests"
            )
        parts = self._with
        held = parts.runs.begin(repository, run)
        try:
            with parts.while_waiting():
                failures = parts.runner.run(repository, held, actions)
        except NotOurs:
            raise Refused(f"run {held.id} of {run.event_type} hooks was ended by others") from None
        HOOK_RUNS.labels(run.event_type, "failure" if failures else "success").inc()
        if failures:
            raise Refused(refusal(run.event_type, held.id, failures))
        return held.id

    def _prepare(self, repository: Repository, run: pb.Run) -> RunID | None:
        if not self._actions(repository, run):
            return None
        return self._with.runs.prepare(repository, run)

    def _actions(self, repository: Repository, run: pb.Run) -> list[Action]:
        if repository.read_only:
            return []
        try:
            actions = self._with.reader.read(repository, MetaRangeID(run.metarange_id))
        except InvalidAction as error:
            raise Refused(f"{run.event_type}: {error}") from error
        return select(actions, EventType(run.event_type), run.branch)

    def _confirm(self, repository: Repository, key: str) -> None:
        under_way = self._under_way.get((repository.partition, key))
        self._under_way.pop((repository.partition, key))
        if under_way is None or under_way.post_run_id is None:
            return
        try:
            self._with.runs.confirm(repository, under_way.post_run_id)
            self._with.on_waiting()
        except LakebedError as error:
            # Whoever runs what waits will find out that the operation has taken effect.
            _LOGGER.warning("run %s was not confirmed: %s", under_way.post_run_id, error)


def refusal(event_type: str, run_id: str, failures: list[Failure]) -> str:
    """Return what clients are told: the words that they know, then what the hooks printed."""
    many = "1 error" if len(failures) == 1 else f"{len(failures)} errors"
    listed = "".join(f"\t* {failure}\n" for failure in failures)
    text = f"{event_type} hook aborted, run id '{run_id}': {many} occurred:\n{listed}\n"
    for failure in failures:
        if failure.output.strip():
            text += f"\noutput of hook '{failure.hook_id}':\n{failure.output.rstrip()}\n"
    return text


def _run_of(offer: Offer, event_type: EventType, metarange_id: MetaRangeID) -> pb.Run:
    commit: Commit = offer.commit
    return pb.Run(
        event_type=event_type,
        metarange_id=metarange_id,
        branch=offer.branch,
        commit_id=commit.id,
        committer=commit.committer,
        message=commit.message,
        metadata=commit.metadata,
        merge_source=offer.merge_source,
        username=acting_user() or commit.committer,
    )
