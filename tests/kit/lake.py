"""Lakes to try the catalog on: every store with every storage, and a clock that tests can turn."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from lakebed.block import Address, BlockStore, LocalSettings, MemorySettings, Namespace, open_block
from lakebed.engine.engine import Engine
from lakebed.engine.errors import EntryNotFound
from lakebed.engine.model import BranchID, Repository, RepositoryID
from lakebed.engine.staging.writer import Writer
from lakebed.kv import Store, open_store
from lakebed.lake.catalog import Catalog
from lakebed.lake.settings import CatalogSettings, LinkSettings
from lakebed.reclaim.service import Reclaim
from tests.kit.engines import new_engine
from tests.kit.hand_clock import WakefulRuntime

REPOSITORY = RepositoryID("lake")
MAIN = BranchID("main")
DEV = BranchID("dev")


class Died(BaseException):
    """The process of a writer is gone."""


class TurnableClock(WakefulRuntime):
    """Clocks that can be moved."""

    def __init__(self) -> None:
        self.ahead_seconds = 0.0

    def now(self) -> float:
        return super().now() + self.ahead_seconds

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_seconds


@dataclass
class Lake:
    """An installation with one repository, which has the branches main and dev."""

    store: Store
    block: BlockStore
    clock: TurnableClock
    settings: CatalogSettings
    engine: Engine
    catalog: Catalog
    reclaim: Reclaim
    name: RepositoryID

    @property
    def staging_call(self) -> str:
        """The name of the call to the store that stages a value."""
        return "write"

    @property
    def repository(self) -> Repository:
        return self.engine.repositories.get(self.name)

    def stored(self) -> list[str]:
        """The addresses of all objects, but those of metadata."""
        namespace = self.repository.namespace.folder("repos")
        batches = self.block.list_objects(namespace)
        return [text for batch in batches for text in batch.column("address").to_pylist()]

    def text(self, ref: str, path: bytes) -> str:
        """The content of an object."""
        return self.bytes_of(REPOSITORY, ref, path).decode()

    def bytes_of(self, name: RepositoryID, ref: str, path: bytes) -> bytes:
        """The content of an object of some repository."""
        objects = self.catalog.objects
        with objects.read(objects.stat(name, ref, path)) as stream:
            return b"".join(stream)

    def exists(self, path: bytes, ref: str = "main") -> bool:
        """Whether there is such an object."""
        try:
            self.catalog.objects.stat(REPOSITORY, ref, path)
        except EntryNotFound:
            return False
        return True

    def upload(self, path: bytes, text: str, branch: BranchID = MAIN) -> None:
        self.catalog.uploads.upload(REPOSITORY, branch, path, [text.encode()])

    def propose(self, path: bytes, text: str) -> Address:
        """Upload as a writer that dies when its entry is proposed; return the object's address."""
        stored = set(self.stored())

        def die(*_args: object) -> bool:
            raise Died

        with patch.object(Writer, "_confirm", die), suppress(Died):
            self.catalog.uploads.upload(
                REPOSITORY, MAIN, path, [text.encode()], condition=lambda _found: True
            )
        (address,) = set(self.stored()) - stored
        return Address.parse(address)


def compare_no_clocks(reclaim: Reclaim) -> None:
    """Let tests turn the clock: the storage goes by the real one."""
    reclaim.clocks.check = lambda repository: None  # type: ignore[method-assign]


def make_lake(
    store: Store,
    block: BlockStore,
    settings: CatalogSettings | None = None,
    *,
    name: RepositoryID = REPOSITORY,
    namespace: str | None = None,
    links: LinkSettings | None = None,
) -> Lake:
    """Make a repository with the branches main and dev."""
    opened = open_lake_on(store, block, settings, name=name, links=links)
    place = Namespace.parse(namespace or f"{block.scheme}://lake/{name}")
    opened.engine.repositories.create(name, place, committer="ann")
    opened.engine.refs.create_branch(name, DEV, MAIN)
    return opened


def open_lake_on(
    store: Store,
    block: BlockStore,
    settings: CatalogSettings | None = None,
    *,
    name: RepositoryID = REPOSITORY,
    links: LinkSettings | None = None,
) -> Lake:
    """Open a repository of a store."""
    clock = TurnableClock()
    settings = settings or CatalogSettings()
    engine = new_engine(store, block, runtime=clock)
    catalog = Catalog(engine, store, block, clock, settings, links=links)
    reclaim = Reclaim(catalog, engine, store, block, clock, settings)
    compare_no_clocks(reclaim)
    return Lake(store, block, clock, settings, engine, catalog, reclaim, name)


@contextmanager
def open_lake(
    kind: str,
    folder: Path,
    settings: CatalogSettings | None = None,
    *,
    links: LinkSettings | None = None,
) -> Iterator[Lake]:
    """Open a lake in memory, or on the disk."""
    in_memory = kind == "memory"
    url = "memory://" if in_memory else f"sqlite:///{folder}/lake.db"
    block_settings = MemorySettings() if in_memory else LocalSettings(folder / "objects")
    with open_store(url) as store, open_block(block_settings) as block:
        yield make_lake(store, block, settings, links=links)
