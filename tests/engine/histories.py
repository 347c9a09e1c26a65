"""Repositories with histories of any shape, for the tests of the refs layer."""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from lakebed.base.runtime import ThreadRuntime, UniqueID, new_unique_id
from lakebed.block import BlockStore, MemorySettings, Namespace, open_block
from lakebed.engine import records_pb2 as pb
from lakebed.engine.committed import Breaks, Cache, Committed
from lakebed.engine.keys import GRAVELER, REPOSITORIES
from lakebed.engine.model import BranchID, Commit, CommitID, Repository, RepositoryID
from lakebed.engine.refs.branches import Branches, Tags
from lakebed.engine.refs.commits import Commits
from lakebed.formats import MetaRangeID
from lakebed.kv import Store, open_store
from lakebed.kv.records import Records

RUNTIME = ThreadRuntime()

NO_METARANGE = MetaRangeID("")


@dataclass(frozen=True)
class Shape:
    """A commit of a history to be made: its parents, as indexes, and its date."""

    parents: tuple[int, ...]
    created_us: int


@st.composite
def shapes(draw: st.DrawFn, max_size: int = 60) -> list[Shape]:
    """Histories of any shape: several roots, merges, criss-cross, equal or falling dates."""
    steps = st.tuples(st.lists(st.integers(1, 6), max_size=3, unique=True), st.integers(0, 4))
    drawn = draw(st.lists(steps, min_size=1, max_size=max_size))
    return [
        Shape(tuple(place - back for back in backs if back <= place), date)
        for place, (backs, date) in enumerate(drawn)
    ]


REPOSITORY = Repository(
    id=RepositoryID("repo"),
    unique_id=UniqueID("uid"),
    namespace=Namespace.parse("mem://bucket/repo"),
    default_branch=BranchID("main"),
    created_us=0,
    read_only=False,
    metadata={},
)
"""For parts of the engine that take a repository without reading its record."""


class HistoryKit:
    """A store, a storage and an empty repository in them."""

    def __init__(self, store: Store | None = None, *, breaks: Breaks | None = None) -> None:
        self.store = store or open_store("memory://")
        self.block: BlockStore = open_block(MemorySettings())
        self.breaks = breaks
        self.branches = Branches(self.store, RUNTIME)
        self.tags = Tags(self.store, RUNTIME)
        self.commits = Commits(self.store, RUNTIME)
        self.repository = self.make_repository("repo")

    def make_repository(self, name: str) -> Repository:
        """Make the record of an active, empty repository."""
        repository = Repository(
            id=RepositoryID(name),
            unique_id=new_unique_id(RUNTIME),
            namespace=Namespace.parse("mem://lake/data"),
            default_branch=BranchID("main"),
            created_us=1,
            read_only=False,
            metadata={},
        )
        message = pb.Repository(
            unique_id=repository.unique_id,
            state=pb.REPOSITORY_STATE_ACTIVE,
            storage_namespace=str(repository.namespace),
            default_branch=repository.default_branch,
            created_us=repository.created_us,
        )
        Records(self.store, REPOSITORIES, GRAVELER).set(name.encode(), message)
        return repository

    def committed(self) -> Committed:
        """The committed entries, with a cache and counters of their own."""
        return Committed(
            self.block,
            self.repository.files_root,
            RUNTIME,
            cache=Cache(RUNTIME),
            breaks=self.breaks,
        )

    def commit(
        self,
        *parents: Commit,
        metarange_id: MetaRangeID = NO_METARANGE,
        created_us: int = 0,
        message: str = "",
    ) -> Commit:
        return self.commits.add(
            self.repository,
            committer="someone",
            message=message,
            metarange_id=metarange_id,
            parents=parents,
            metadata={},
            created_us=created_us,
        )

    def build(self, history: Sequence[Shape]) -> list[Commit]:
        """Make commits of these shapes."""
        made: list[Commit] = []
        for shape in history:
            parents = [made[place] for place in shape.parents]
            made.append(self.commit(*parents, created_us=shape.created_us))
        return made


def ancestry(commits: Sequence[Commit]) -> dict[CommitID, set[CommitID]]:
    """The plain model: for each commit all commits reachable from it, and itself."""
    reached: dict[CommitID, set[CommitID]] = {}
    for commit in commits:
        reached[commit.id] = {commit.id}.union(*(reached[parent] for parent in commit.parents))
    return reached
