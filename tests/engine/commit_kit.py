"""A repository with engines of several processes, for tests that stop commits half way."""

from collections.abc import Callable

from lakebed.base.runtime import ThreadRuntime
from lakebed.block.drivers.memory import MemoryBlockStore
from lakebed.engine import records_pb2 as pb
from lakebed.engine.commits.requests import CommitProposals, CommitRequest, CommitResult
from lakebed.engine.engine import Engine
from lakebed.engine.errors import EntryNotFound
from lakebed.engine.hooks import Hooks, Proposal
from lakebed.engine.keys import GRAVELER, REPOSITORIES
from lakebed.engine.model import Branch, Commit
from lakebed.engine.repositories.removal import ACTIVE
from lakebed.kv import Store
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.kv.records import Records
from lakebed.testing.models.committed import ModelCommitted
from tests.engine.histories import REPOSITORY
from tests.kit import staging
from tests.simulation.world import DEV, MAIN, SETTINGS, entry


class Interrupting(Hooks):
    """Does things, each once, before a commit is published."""

    def __init__(self, *things: Callable[[], object]) -> None:
        self.things = list(things)
        self.proposals: list[Proposal] = []

    def before_commit(self, proposal: Proposal) -> None:
        self.proposals.append(proposal)
        if self.things:
            self.things.pop(0)()


class CommitKit:
    """A repository with two branches and engines of several processes."""

    def __init__(self) -> None:
        self.runtime = ThreadRuntime()
        self.store = MemoryStore(self.runtime)
        self.block = MemoryBlockStore(self.runtime)
        self.committed = ModelCommitted(self.block, REPOSITORY.files_root)
        record = pb.Repository(
            state=ACTIVE,
            unique_id=REPOSITORY.unique_id,
            storage_namespace=str(REPOSITORY.namespace),
            default_branch=REPOSITORY.default_branch,
        )
        Records(self.store, REPOSITORIES, GRAVELER).set(REPOSITORY.id.encode(), record)
        engine = self.engine()
        first = engine.commits.add(
            REPOSITORY,
            committer="",
            message="",
            metarange_id=self.committed.write([]),
            parents=[],
            metadata={},
        )
        for branch in (MAIN, DEV):
            engine.branches.create(REPOSITORY, branch, first.id)

    def engine(self, hooks: Hooks | None = None, store: Store | None = None) -> Engine:
        return Engine(
            store or self.store,
            self.block,
            runtime=self.runtime,
            hooks=hooks,
            settings=SETTINGS,
            committed_in=lambda _: self.committed,
        )

    def contents(self, commit: Commit) -> dict[bytes, str]:
        found = self.committed.contents(commit.metarange_id)
        return {key: value.address for key, value in found.items()}


def put(engine: Engine, key: bytes, name: str) -> None:
    staging.put(engine, REPOSITORY.id, MAIN, entry(key, name))


def commit(engine: Engine, *, allow_empty: bool = False) -> CommitResult:
    request = CommitRequest(committer="ann", message="m", allow_empty=allow_empty)
    return engine.committer.commit(REPOSITORY, MAIN, request)


def publish(engine: Engine, sealed: Branch) -> CommitResult | None:
    """Publish the sealed tokens of a branch, as the last steps of a commit do."""
    request = CommitRequest(committer="", message="")
    proposals = CommitProposals.begin(REPOSITORY, "commit", request)
    return engine.committer._commit_sealed(proposals, sealed)


def shown(engine: Engine, key: bytes) -> str | None:
    try:
        return staging.get(engine, REPOSITORY.id, MAIN, key).address
    except EntryNotFound:
        return None


def head(engine: Engine) -> Commit:
    return engine.commits.get(REPOSITORY, engine.branches.get(REPOSITORY, MAIN).commit_id)
