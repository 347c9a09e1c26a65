"""Hooks called by the engine before and after operations, implemented by action files.

Source of the action files of an event:

| event                              | action files are read from                                  |
|------------------------------------|-------------------------------------------------------------|
| prepare-commit, pre-commit         | the branch with its uncommitted changes                     |
| pre-revert, pre-cherry-pick        | the branch                                                  |
| pre-merge                          | the source                                                  |
| post-commit, -merge, -revert, …    | the new commit                                              |
| create and delete, pre and post    | the commit of the branch or the tag                         |

In a repository with *strict hooks*, pre events also run the action files of the head that the
operation replaces: otherwise a commit without an action file, or with a weaker one, would bypass
the check that it removes. Files in both head and candidate run once; all must pass. The candidate
is the source of a merge, otherwise the new commit. The head is the first parent of the proposed
commit, which is published by compare-and-swap of a branch record with that head: if the head moves
while hooks run, the swap fails, and a new commit on the new head is proposed.

Runs of post events are recorded *before* the operation takes effect (`Runs.prepare`) and confirmed
after. See `post` for runs that were never confirmed.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from lakebed.base.actor import current_actor
from lakebed.base.errors import LakebedError
from lakebed.base.lru import LRU
from lakebed.base.runtime import Runtime, UniqueID
from lakebed.engine.engine import Engine
from lakebed.engine.errors import Refused
from lakebed.engine.hooks import Hooks, Preparation, Proposal
from lakebed.engine.leases import LeaseLostError
from lakebed.engine.model import Branch, BranchID, Commit, CommitID, Repository, Tag, TagID
from lakebed.formats import MetaRangeID
from lakebed.lake.hooks import records_pb2 as pb
from lakebed.lake.hooks.errors import InvalidAction
from lakebed.lake.hooks.events import EventType
from lakebed.lake.hooks.files import ActionFile, ActionReader, select
from lakebed.lake.hooks.keys import RunID
from lakebed.lake.hooks.runner import HOOK_RUNS, FailedHook, Runner
from lakebed.lake.hooks.runs import Runs

PROPOSALS_MAX: Final = 5
"""Maximum number of contents that hooks judge per request: a hook that changes its own branch, or a
branch under constant writes, would block the request forever."""

_PENDING_MAX: Final = 10_000

_REPAIR: Final = (
    "; the hooks of the branch's head apply too: to repair them, an administrator can skip them"
    " (skip_hooks, lakebed commit --skip-hooks)"
)
"""Advice for an invalid action file of a head."""

_EVENTS: Final[Mapping[str, tuple[EventType, EventType]]] = {
    "commit": (EventType.PRE_COMMIT, EventType.POST_COMMIT),
    "import": (EventType.PRE_COMMIT, EventType.POST_COMMIT),
    "merge": (EventType.PRE_MERGE, EventType.POST_MERGE),
    "revert": (EventType.PRE_REVERT, EventType.POST_REVERT),
    "cherry-pick": (EventType.PRE_CHERRY_PICK, EventType.POST_CHERRY_PICK),
}
NewRun = Callable[[], pb.Run]
"""Build the record of a hook run. Called only if a hook matches."""

_LOGGER: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class _Pending:
    """An approved operation that has not ended."""

    pre_run_id: str = ""
    post_run_id: RunID | None = None
    """The prepared run of the post event."""
    prepare: Callable[[], RunID | None] = lambda: None
    """Prepares the post run again."""


@dataclass(frozen=True, slots=True)
class GuardParts:
    """The components of a guard. Attached later, because the engine needs the guard first."""

    engine: Engine
    reader: ActionReader
    runs: Runs
    runner: Runner
    while_waiting: Callable[[], AbstractContextManager[None]]
    """Entered while a request waits for hooks."""
    on_waiting: Callable[[], object]
    """Called whenever a run is ready to start."""


class HookGuard(Hooks):
    """The engine's hooks for repositories with action files."""

    def __init__(self, runtime: Runtime) -> None:
        self._pending: LRU[tuple[str, str], _Pending] = LRU(runtime, cost_max=_PENDING_MAX)

    def attach(self, parts: GuardParts) -> None:
        """Set the components; called before the first operation."""
        self._parts = parts

    # Commits

    def prepare_commit(self, preparation: Preparation) -> bool:
        scope = _Scope(
            preparation.repository,
            preparation.metarange_id,
            preparation.branch,
            head=preparation.head,
        )

        def new_run() -> pb.Run:
            return pb.Run(
                source_ref=preparation.branch,
                committer=preparation.committer,
                message=preparation.message,
                metadata=preparation.metadata,
                username=current_actor().user,
            )

        return bool(self._run_hooks(scope, EventType.PREPARE_COMMIT, new_run))

    def before_commit(self, proposal: Proposal) -> None:
        before, _ = _EVENTS[proposal.operation]
        source_ref: str = proposal.branch
        judge = proposal.judge
        if before is EventType.PRE_MERGE:
            source_ref = judge.id
        elif proposal.repository.strict_hooks:
            judge = proposal.commit
        scope = _Scope(
            proposal.repository,
            judge.metarange_id,
            proposal.branch,
            script_ref=judge.id,
            head=proposal.head,
        )
        run_id = self._run_hooks(
            scope, before, lambda: _run_of(proposal, source_ref), proposal.number
        )
        if run_id:
            self._note(proposal.repository, proposal.commit.id, _Pending(pre_run_id=run_id))

    def before_publish(self, proposal: Proposal) -> None:
        key = proposal.repository.unique_id, proposal.commit.id
        pending = self._pending.get(key) or _Pending()
        if pending.post_run_id is not None:
            self._ensure_prepared(proposal.repository, pending)
            return
        _, after = _EVENTS[proposal.operation]
        scope = _Scope(proposal.repository, proposal.commit.metarange_id, proposal.branch)

        def new_run() -> pb.Run:
            run = _run_of(proposal, proposal.commit.id)
            run.ref_unique_id = proposal.branch_unique_id
            run.pre_run_id = pending.pre_run_id
            return run

        pending.prepare = partial(self._prepare, scope, after, new_run)
        pending.post_run_id = pending.prepare()
        if pending.post_run_id is not None:
            self._note(proposal.repository, proposal.commit.id, pending)

    def after_commit(self, proposal: Proposal) -> None:
        self._end(proposal.repository, proposal.commit.id, took_effect=True)

    # Branches and tags

    def before_create_branch(
        self,
        repository: Repository,
        branch: BranchID,
        commit_id: CommitID,
        source: str,
        unique_id: UniqueID,
    ) -> None:
        run = pb.Run(source_ref=source, commit_id=commit_id, ref_unique_id=unique_id)
        pair = EventType.PRE_CREATE_BRANCH, EventType.POST_CREATE_BRANCH
        scope = self._scope_of(repository, commit_id, branch)
        self._run_for_creation(scope, run, pair)

    def before_create_tag(
        self, repository: Repository, tag: TagID, commit_id: CommitID, unique_id: UniqueID
    ) -> None:
        run = pb.Run(source_ref=commit_id, commit_id=commit_id, tag=tag, ref_unique_id=unique_id)
        pair = EventType.PRE_CREATE_TAG, EventType.POST_CREATE_TAG
        self._run_for_creation(self._scope_of(repository, commit_id), run, pair)

    def before_delete_branch(
        self, repository: Repository, branch: Branch, operation: UniqueID
    ) -> None:
        run = pb.Run(source_ref=branch.commit_id, ref_unique_id=branch.unique_id)
        pair = EventType.PRE_DELETE_BRANCH, EventType.POST_DELETE_BRANCH
        scope = self._scope_of(repository, branch.commit_id, branch.id)
        self._run_and_prepare(scope, run, pair, operation)

    def before_delete_tag(self, repository: Repository, tag: Tag, operation: UniqueID) -> None:
        run = pb.Run(
            source_ref=tag.commit_id,
            commit_id=tag.commit_id,
            tag=tag.id,
            ref_unique_id=tag.unique_id,
        )
        pair = EventType.PRE_DELETE_TAG, EventType.POST_DELETE_TAG
        self._run_and_prepare(self._scope_of(repository, tag.commit_id), run, pair, operation)

    def before_try(self, repository: Repository, operation: UniqueID) -> None:
        pending = self._pending.get((repository.unique_id, operation))
        if pending is not None:
            self._ensure_prepared(repository, pending)

    def before_leaving(self, repository: Repository, ref: Branch | Tag) -> None:
        # A process may have died between its operation and confirming the run. The ref that proves
        # the operation's success is about to change or disappear.
        for run_id, run in self._parts.runs.prepared(repository):
            if run.ref_unique_id == ref.unique_id and self._proves(repository, ref, run):
                self._parts.runs.confirm(repository, run_id)
                self._parts.on_waiting()

    def after_change(self, repository: Repository, operation: UniqueID) -> None:
        self._end(repository, operation, took_effect=True)

    def after_failed_change(self, repository: Repository, operation: UniqueID) -> None:
        self._end(repository, operation, took_effect=False)

    # Steps

    def _scope_of(self, repository: Repository, commit_id: CommitID, branch: str = "") -> "_Scope":
        commit = self._parts.engine.commits.get(repository, commit_id)
        return _Scope(repository, commit.metarange_id, branch)

    def _run_for_creation(
        self, scope: "_Scope", run: pb.Run, pair: tuple[EventType, EventType]
    ) -> None:
        # Drop the run prepared for another commit of the source.
        self._end(scope.repository, run.ref_unique_id, took_effect=False)
        self._run_and_prepare(scope, run, pair, run.ref_unique_id)

    def _run_and_prepare(
        self, scope: "_Scope", run: pb.Run, pair: tuple[EventType, EventType], key: str
    ) -> None:
        """Run the hooks before an operation, and prepare the run after it."""
        run.username = current_actor().user
        run.pre_run_id = self._run_hooks(scope, pair[0], lambda: run)
        prepare = partial(self._prepare, scope, pair[1], lambda: run)
        post_run_id = prepare()
        if post_run_id is not None:
            pending = _Pending(post_run_id=post_run_id, prepare=prepare)
            self._note(scope.repository, key, pending)

    def _ensure_prepared(self, repository: Repository, pending: _Pending) -> None:
        """Ensure that the prepared run still exists, before the operation is retried."""
        prepared = pending.post_run_id
        if prepared is None or not self._parts.runs.keep_prepared(repository, prepared):
            pending.post_run_id = pending.prepare()

    def _proves(self, repository: Repository, ref: Branch | Tag, run: pb.Run) -> bool:
        """Whether the state of a branch or a tag proves that the operation of a run succeeded."""
        event_type = EventType(run.event_type)
        if event_type.is_creation:
            return True
        if event_type.is_deletion or isinstance(ref, Tag):
            return False
        publisher, ids = self._parts.engine.publisher, [CommitID(run.commit_id)]
        return publisher.find_leading(repository, ref.commit_id, ids) is not None

    def _note(self, repository: Repository, key: str, pending: _Pending) -> None:
        self._pending.put((repository.unique_id, key), pending)

    def _run_hooks(
        self, scope: "_Scope", event_type: EventType, new_run: NewRun, number: int = 1
    ) -> str:
        """Run the hooks of an event; return the run's id, or an empty string without hooks.

        Of two runs, returns the id of the candidate's. Raises `Refused` if a hook failed, or an
        action file is invalid.
        """
        if current_actor().skips_hooks:
            return self._skip(scope, event_type, new_run)
        gates = self._gates(scope, event_type, new_run)
        if gates and number > PROPOSALS_MAX:
            raise Refused(
                f"branch {scope.branch} changed {PROPOSALS_MAX} times while {event_type} hooks ran:"
                " retry when it is written to less"
            )
        run_id = ""
        for gate, actions in gates:
            run_id = self._run(gate, event_type, new_run, actions)
        return run_id

    def _gates(
        self, scope: "_Scope", event_type: EventType, new_run: NewRun
    ) -> list[tuple["_Scope", list[ActionFile]]]:
        """Return the action files that judge an event, grouped by source."""
        own = self._actions(scope, event_type, new_run)
        gates: list[tuple[_Scope, list[ActionFile]]] = []
        head = scope.head if scope.repository.strict_hooks else None
        if head is not None and head.metarange_id != scope.metarange_id:
            there = replace(scope, metarange_id=head.metarange_id, script_ref=head.id, head=None)
            of_head = self._actions(there, event_type, new_run, advice=_REPAIR)
            if of_head:
                equal = self._parts.reader.have_equal_scripts
                ids = scope.metarange_id, there.metarange_id
                own = [
                    each
                    for each in own
                    if each not in of_head or not equal(scope.repository, each, *ids)
                ]
                gates.append((there, of_head))
        if own:
            gates.append((scope, own))
        return gates

    def _run(
        self, scope: "_Scope", event_type: EventType, new_run: NewRun, actions: list[ActionFile]
    ) -> RunID:
        """Run actions before an operation; raise `Refused` if a hook failed."""
        parts, repository = self._parts, scope.repository
        leased = parts.runs.begin(repository, scope.complete(new_run(), event_type))
        try:
            with parts.while_waiting():
                failures = parts.runner.run(repository, leased, actions)
        except LeaseLostError:
            raise Refused(
                f"run {leased.id} of {event_type} hooks was ended by another process"
            ) from None
        HOOK_RUNS.labels(event_type, "failure" if failures else "success").inc()
        if failures:
            first = failures[0]
            by = f"{event_type} hook '{first.hook_id}' of action '{first.action}', run {leased.id}"
            raise Refused(refusal(event_type, leased.id, failures), by=by)
        return leased.id

    def _skip(self, scope: "_Scope", event_type: EventType, new_run: NewRun) -> str:
        """Record that an administrator skipped the hooks of an event; return the run's id."""
        if event_type is EventType.PREPARE_COMMIT:
            return ""  # the following pre-commit event is recorded
        run = scope.complete(new_run(), event_type)
        run_id = self._parts.runs.record_skipped(scope.repository, run)
        _LOGGER.warning(
            "%s skipped the %s hooks of %s/%s: commit %s, run %s",
            run.username,
            event_type,
            scope.repository.id,
            run.tag or run.branch,
            run.commit_id or "unchanged",
            run_id,
        )
        return run_id

    def _prepare(self, scope: "_Scope", event_type: EventType, new_run: NewRun) -> RunID | None:
        if not self._actions(scope, event_type, new_run):
            return None
        return self._parts.runs.prepare(scope.repository, scope.complete(new_run(), event_type))

    def _actions(
        self, scope: "_Scope", event_type: EventType, new_run: NewRun, advice: str = ""
    ) -> list[ActionFile]:
        if scope.repository.read_only:
            return []
        try:
            actions = self._parts.reader.read(scope.repository, scope.metarange_id)
        except InvalidAction as error:
            if current_actor().skips_hooks and (event_type.is_creation or event_type.is_deletion):
                return []  # otherwise a ref to a commit with such a file could never be deleted
            run = scope.complete(new_run(), event_type)
            self._parts.runs.record_invalid(scope.repository, run, error)
            HOOK_RUNS.labels(event_type, "failure").inc()
            by = f"{event_type} hooks, which cannot run: {error}"
            raise Refused(f"{event_type}: {error}{advice}", by=by) from error
        return select(actions, event_type, scope.branch) if actions else []

    def _end(self, repository: Repository, key: str, *, took_effect: bool) -> None:
        """Confirm or drop the prepared run of an operation."""
        pending = self._pending.pop((repository.unique_id, key))
        if pending is None or pending.post_run_id is None:
            return
        post_run_id, runs = pending.post_run_id, self._parts.runs
        try:
            if took_effect:
                runs.confirm(repository, post_run_id)
                self._parts.on_waiting()
            else:
                runs.drop(repository, post_run_id)
        except LakebedError as error:
            # `PostRunner` will find out whether the operation took effect.
            done = "confirmed" if took_effect else "dropped"
            _LOGGER.warning("run %s was not %s: %s", post_run_id, done, error)


def refusal(event_type: str, run_id: str, failures: list[FailedHook]) -> str:
    """Build the message for clients: lakeFS's wording, then the output of the hooks."""
    many = "1 error" if len(failures) == 1 else f"{len(failures)} errors"
    listed = "".join(f"\t* {failure}\n" for failure in failures)
    text = f"{event_type} hook aborted, run id '{run_id}': {many} occurred:\n{listed}\n"
    for failure in failures:
        if failure.output.strip():
            text += f"\noutput of hook '{failure.hook_id}':\n{failure.output.rstrip()}\n"
    return text


@dataclass(frozen=True, slots=True)
class _Scope:
    """The place of an event, and the metarange with its action files."""

    repository: Repository
    metarange_id: MetaRangeID
    branch: str = ""
    script_ref: str = ""
    """Ref for reading the scripts of these action files; defaults to the event's source."""
    head: Commit | None = None
    """The head that the operation replaces, if any."""

    def complete(self, run: pb.Run, event_type: EventType) -> pb.Run:
        run.event_type = event_type
        run.metarange_id = self.metarange_id
        run.branch = self.branch
        run.script_ref = self.script_ref
        return run


def _run_of(proposal: Proposal, source_ref: str) -> pb.Run:
    commit = proposal.commit
    return pb.Run(
        source_ref=source_ref,
        commit_id=commit.id,
        committer=commit.committer,
        message=commit.message,
        metadata=commit.metadata,
        merge_source=proposal.merge_source,
        username=current_actor().user,
    )
