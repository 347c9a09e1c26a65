"""What actors do with the branches of repositories; each compares its answer with the truth.

All goes through the facade. An operation that writes is noted with its begin and its end, and how
it ended, in the history of its branch (`lakebed.testing.simulation.history`), so that later reads
and commits can be compared with it. What a read shows must also be what one record of the branch
could show, and a commit that someone is told of must have been the head (`Truth`).
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Final

from lakebed.base.errors import LakebedError
from lakebed.engine.commits.requests import CommitRequest, MergeRequest
from lakebed.engine.committed import EntryPage, EntryQuery, Strategy
from lakebed.engine.errors import EntryNotFound, NoChanges, NotFound, PreconditionFailed, Stale
from lakebed.engine.model import BranchID, Commit, RepositoryID
from lakebed.engine.staging.writer import Condition
from lakebed.formats import Entry
from lakebed.kv import CorruptRecord, OutcomeUnknown, StoreUnavailable
from lakebed.lake.commits import HeadChanges
from lakebed.testing.simulation.history import ABSENT, WILD, ActorOperation
from tests.kit import staging
from tests.kit.engines import cherry_pick, dump
from tests.simulation.truth import PLAIN_COMMIT
from tests.simulation.world import DEV, KEYS, MAIN, Dump, Process, Read, World, addresses, entry

COMMIT: Final = CommitRequest(committer="", message=PLAIN_COMMIT)
OTHER: Final = CommitRequest(committer="", message="something else")


def told_of(page: EntryPage[Entry], query: EntryQuery) -> list[bytes]:
    """The keys that a page covers: it shows their values, or that they are not there."""
    names = {item.key for item in page.items}
    last = page.items[-1].key if page.has_more else KEYS[-1]
    return [
        key
        for key in KEYS
        if key.startswith(query.prefix) and key <= last and query.folded(key) not in names
    ]


class Worker:
    """One task of a process: works on a branch of a repository, and notes what it was told."""

    def __init__(
        self, world: World, process: Process, name: RepositoryID, branch: BranchID
    ) -> None:
        self.world = world
        self.lake = process.lake
        self.name = name
        self.branch = branch
        self.history = world.histories[name, branch]
        self.random = world.random

    @property
    def step(self) -> int:
        return self.world.simulation.step

    def attempt(
        self,
        name: str,
        key: bytes | None,
        value: str | None,
        act: Callable[[], object],
        *,
        conditional: bool = False,
    ) -> ActorOperation:
        """Do something that writes, noting when it began and ended, and how."""
        operation = ActorOperation(name, key, value, self.step)
        self.history.writes.append(operation)
        try:
            act()
            operation.succeeded = True
            self.world.told[name] += 1
        except LakebedError as error:
            operation.name = f"{name}, which raised {type(error).__name__}"
            self.world.told[type(error).__name__] += 1
            if conditional:
                self.world.told[f"{name}: {type(error).__name__}"] += 1
                is_unknown = isinstance(error, OutcomeUnknown)
                operation.refused = not is_unknown or isinstance(error, StoreUnavailable)
                calm = self.world.is_calm
                is_answer = isinstance(error, PreconditionFailed | Stale | NotFound)
                self.world.check(f"{operation}, with nothing lost", holds=is_answer or not calm)
        operation.ended = self.step
        return operation

    # Keys

    def put(self) -> None:
        key, name = self.random.choice(KEYS), self.world.new_name()
        act = partial(staging.put, self.lake, self.name, self.branch, entry(key, name))
        self.attempt("put", key, name, act)

    def upload(self) -> None:
        """Put as uploads do: the branch is opened first."""
        key, name = self.random.choice(KEYS), self.world.new_name()

        def act() -> None:
            opened = staging.open_to_put(self.lake, self.name, self.branch, key)
            known = self.lake.readings.renewed(opened, key)
            self.lake.writer.put(known, entry(key, name), lambda: True)

        self.attempt("put", key, name, act)

    def create(self) -> None:
        key, name = self.random.choice(KEYS), self.world.new_name()
        is_recent = self.random.choice([None, None, lambda: self.random.random() < 0.9])

        def act(condition: Condition) -> None:
            staging.put(
                self.lake,
                self.name,
                self.branch,
                entry(key, name),
                condition=condition,
                is_recent=is_recent,
            )

        self.attempt_if("create", key, name, {ABSENT}, act)

    def replace(self) -> None:
        """Put over the very entry that is there."""
        key, name = self.random.choice(KEYS), self.world.new_name()

        def act(condition: Condition) -> None:
            staging.put(self.lake, self.name, self.branch, entry(key, name), condition=condition)

        self.attempt_if("replace", key, name, self.look(key), act)

    def remove(self) -> None:
        """Delete the very entry that is there."""
        key = self.random.choice(KEYS)

        def act(condition: Condition) -> None:
            staging.delete(self.lake, self.name, self.branch, key, condition=condition)

        self.attempt_if("remove", key, ABSENT, self.look(key), act)

    def look(self, key: bytes) -> set[str | None]:
        """Return what is there, if anything."""
        try:
            return {staging.get(self.lake, self.name, self.branch, key).address}
        except LakebedError:
            return {"something else"}

    def attempt_if(
        self,
        name: str,
        key: bytes,
        value: str | None,
        wanted: set[str | None],
        act: Callable[[Condition], None],
    ) -> None:
        """Write on the condition that something certain is there."""
        task, truth = self.world.simulation.current_task, self.world.truth
        operation = self.attempt(
            name,
            key,
            value,
            lambda: act(lambda found: (found and found.address) in wanted),
            conditional=True,
        )
        write = truth.last_staged(key, task, operation.begun)
        if operation.refused:
            assert write is None, f"{operation} staged {write}"
            if "PreconditionFailed" in operation.name or "NothingThere" in operation.name:
                self.check_refused(key, operation, wanted)
        elif operation.succeeded:
            assert write is not None, f"{operation} staged nothing"
            assert write.version is not None, f"{operation} came too late"
            there = truth.shown_before(write, key, self.world.held)
            assert there & {*wanted, value}, f"{operation} took effect over {there}"

    def check_refused(self, key: bytes, operation: ActorOperation, wanted: set[str | None]) -> None:
        """Check that the condition did not hold all the time."""
        span = (operation.begun, self.step)
        seen = set[str | None]()
        for partition in self.world.monitor.active_partitions(self.name, *span):
            seen |= self.world.truth.may_see(partition, self.branch, key, span, self.world.held)
        assert not seen or seen - wanted, f"{operation}, but {seen} was there throughout"

    def delete(self) -> None:
        key = self.random.choice(KEYS)
        self.attempt(
            "delete", key, ABSENT, partial(staging.delete, self.lake, self.name, self.branch, key)
        )

    def read(self) -> None:
        key, begun = self.random.choice(KEYS), self.step
        try:
            found = {key: staging.get(self.lake, self.name, self.branch, key).address}
        except EntryNotFound:
            found = {}
        except LakebedError:
            return
        self.check_read("a read", found, [key], begun)

    def list_all(self) -> None:
        begun = self.step
        # A short page is read in small steps, and so leaves notes of what is empty.
        query = EntryQuery(
            prefix=self.random.choice([b"", b"", b"dir/"]),
            delimiter=self.random.choice([b"", b"/"]),
            amount=self.random.choice([1, len(KEYS)]),
        )
        try:
            page = staging.list_entries(self.lake, self.name, self.branch, query)
        except CorruptRecord:
            raise
        except LakebedError:
            return
        keys = told_of(page, query)
        unsettled = [key for key in keys if self.history.is_unsettled(key, begun)]
        self.check_read("a listing", addresses(page), keys, begun, may_lack=unsettled)

    def check_read(
        self,
        what: str,
        found: dict[bytes, str],
        keys: list[bytes],
        begun: int,
        *,
        may_lack: Collection[bytes] = (),
    ) -> None:
        """Check the values shown for keys; some keys may be left out although they are there.

        Listings leave out puts that were not acknowledged, where another found nothing before.
        """
        self.world.told[what] += 1
        self.history.check_read(what, found, keys, begun, self.step)
        shown = {key: found.get(key, ABSENT) for key in keys if key in found or key not in may_lack}
        span = (begun, self.step)
        partitions = self.world.monitor.active_partitions(self.name, *span)
        read = Read(what, partitions, self.branch, shown, span)
        read.check(self.world)
        self.world.reads.append(read)

    # Commits

    def commit(self) -> None:
        begun = self.step
        try:
            request = replace(COMMIT, committer=self.world.new_name())
            result = HeadChanges(self.lake).commit(self.name, self.branch, request)
        except NoChanges:
            self.world.told["no changes"] += 1
            self.check_head(begun)
            return
        except LakebedError:
            return
        self.world.told["taken along" if result.taken_along else "commit"] += 1
        is_own = result.commit.committer == request.committer
        assert is_own != result.taken_along, f"{result} has a wrong `taken_along`"
        self.check_told(result.commit, begun)
        self.check_held(result.commit, begun)

    def check_held(self, commit: Commit, begun: int) -> None:
        """Everything that was acknowledged before a commit began is in it."""
        partitions = self.world.monitor.active_partitions(self.name, begun, self.step)
        (partition,) = [each for each in partitions if commit.id in self.world.truth.commits[each]]
        contents = dict(self.world.held(partition, commit.id))
        self.history.check_read("a commit", contents, KEYS, begun, self.step)

    def check_told(self, commit: Commit, begun: int) -> None:
        """A commit that someone is told of became the head meanwhile."""
        partitions = self.world.monitor.active_partitions(self.name, begun, self.step)
        assert self.world.truth.became_head(partitions, self.branch, commit.id, begun), (
            f"{commit.id} was never made the head of {self.branch} after step {begun}"
        )

    def check_head(self, begun: int) -> None:
        """If there is nothing to commit, the head has all that was acknowledged before."""
        now = self.step
        for partition in self.world.monitor.active_partitions(self.name, now, now):
            for version in self.world.truth.branch_versions(partition, self.branch):
                if version.until > now:
                    contents = dict(self.world.held(partition, version.commit_id))
                    self.history.check_read("an unchanged head", contents, KEYS, begun, now)

    def move(self, name: str, act: Callable[[], Commit]) -> None:
        """Give the branch a new head that is not a commit of what is staged."""
        begun = self.step
        self.attempt(name, None, WILD, lambda: self.check_told(act(), begun))

    def merge(self) -> None:
        source = DEV if self.branch == MAIN else MAIN
        strategy = self.random.choice([None, Strategy.SOURCE_WINS, Strategy.DEST_WINS])
        request = MergeRequest(committer="", message="", strategy=strategy)
        self.move(
            "merge", partial(HeadChanges(self.lake).merge, self.name, source, self.branch, request)
        )

    def revert(self) -> None:
        revert = partial(HeadChanges(self.lake).revert, self.name, self.branch, self.branch, OTHER)
        self.move("revert", partial(revert, parent_number=1))

    def cherry_pick(self) -> None:
        source = DEV if self.branch == MAIN else MAIN
        pick = partial(cherry_pick, self.lake, self.name, self.branch, source, OTHER)
        self.move("cherry-pick", partial(pick, parent_number=1))

    def hard_reset(self) -> None:
        target = f"{self.branch}~1"
        act = partial(HeadChanges(self.lake).hard_reset, self.name, self.branch, target)
        self.attempt("hard reset", None, WILD, act)

    # Resets

    def reset(self) -> None:
        self.attempt(
            "reset", None, WILD, partial(HeadChanges(self.lake).reset, self.name, self.branch)
        )

    def reset_key(self) -> None:
        key = self.random.choice(KEYS)
        act = partial(HeadChanges(self.lake).reset_object, self.name, self.branch, key)
        self.reset_some("reset of a key", key, act)

    def reset_prefix(self) -> None:
        act = partial(HeadChanges(self.lake).reset_prefix, self.name, self.branch, b"dir/")
        self.reset_some("reset of a prefix", b"dir/c", act)

    def reset_some(self, name: str, key: bytes, act: Callable[[], None]) -> None:
        """Reset a key; what that stages, if anything, is what the head had at the moment."""
        operation = self.attempt(name, key, WILD, act)
        truth = self.world.truth
        write = truth.last_staged(key, self.world.simulation.current_task, operation.begun)
        # Otherwise the reset looked again, and may have found nothing to do.
        if operation.succeeded and write is not None and truth.stands(write, key):
            there = truth.shown_by_head(write, key, self.world.held)
            assert write.value == there, f"{operation} staged {write.value} instead of {there}"

    # Branches and tags

    def recreate(self) -> None:
        """Delete a branch and make it again from the first commit: all of its keys are gone."""
        act = partial(self.lake.refs.delete_branch, self.name, self.branch)
        if self.attempt("delete branch", None, ABSENT, act).succeeded:
            try:
                repository = self.lake.repositories.get(self.name)
                first = min(self.lake.commits.list(repository), key=lambda c: c.generation)
                self.lake.refs.create_branch(self.name, self.branch, first.id)
            except (LakebedError, ValueError):  # or there is no commit any more
                return

    def fork(self) -> None:
        """Make the branch from the other one, if it is not there."""
        act = partial(self.lake.refs.create_branch, self.name, self.branch, MAIN)
        self.attempt("create branch", None, WILD, act)

    def tag(self) -> None:
        """Make a tag, or delete it."""
        tag = self.random.choice(["v1", "v2"])
        try:
            if self.random.random() < 0.7:
                self.lake.refs.create_tag(self.name, tag, self.branch)
                self.world.told["create tag"] += 1
            else:
                self.lake.refs.delete_tag(self.name, tag)  # type: ignore[arg-type]
        except LakebedError:
            return

    def dump(self) -> None:
        begun = self.step
        try:
            manifest = dump(self.lake, self.name)
        except LakebedError as error:
            self.world.told[f"no dump: {type(error).__name__}"] += 1
            return
        self.world.told["dump"] += 1
        self.world.dumps.append(Dump(manifest, begun, self.step))
