"""Whether a dump that was taken while others worked gives back the same history."""

from lakebed.block.drivers.memory import MemoryBlockStore
from lakebed.engine.committed import EntryQuery
from lakebed.engine.engine import Engine
from lakebed.engine.keys import BRANCHES, COMMITS, INSTALLATION_KEY, TAGS
from lakebed.engine.model import Repository, RepositoryID
from lakebed.engine.refs.commits import compute_id
from lakebed.formats import DumpID
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.kv.records import Records
from lakebed.kv.schema import METADATA_PARTITION
from tests.kit import staging
from tests.kit.engines import restore
from tests.simulation.monitor import Span
from tests.simulation.truth import Version
from tests.simulation.world import Dump, OnlookerRuntime, World, addresses

RESTORED = RepositoryID("restored")


def check_dump(world: World, dump: Dump) -> None:
    """Restore a dump into a bare repository of an empty store, and compare it with the truth.

    Every branch and tag points to a commit that it pointed to at some moment of the dump, and those
    that were there all the time are there. Every commit is the very record that it was, with its
    parents and what it holds; all that were a head before the dump began are there.
    """
    unique_id = dump.manifest.unique_ids[0]
    span = next(span for span in world.monitor.spans if span.unique_id == unique_id)
    store = MemoryStore(world.onlooker.runtime)
    lake = _restore(world, store, span, dump.manifest.dump_id)
    repository = lake.repositories.get(RESTORED)
    branches: dict[str, str] = {
        branch.id: branch.commit_id for branch in lake.branches.list(repository)
    }
    tags: dict[str, str] = {tag.id: tag.commit_id for tag in lake.tags.list(repository)}
    _check_refs(world, span, dump, BRANCHES.prefix, branches)
    _check_refs(world, span, dump, TAGS.prefix, tags)
    _check_commits(world, span, dump, store, repository)
    for name, commit_id in [*branches.items(), *tags.items()]:
        page = staging.list_entries(lake, RESTORED, name, EntryQuery())
        assert addresses(page) == world.held(span.partition, commit_id)


def _restore(world: World, store: MemoryStore, span: Span, dump_id: DumpID) -> Engine:
    """Make a bare repository over a copy of the storage, as if the store had been lost."""
    runtime = OnlookerRuntime(world.simulation)
    block = MemoryBlockStore(runtime)
    block._objects.update(world.monitor.block._objects)
    installation = world.monitor.store.get(METADATA_PARTITION, INSTALLATION_KEY)
    store.set(METADATA_PARTITION, INSTALLATION_KEY, installation.value)
    lake = world.parts.build("restorer", runtime, store, block).lake
    lake.repositories.create_bare(RESTORED, span.namespace)
    restore(lake, RESTORED, dump_id)
    return lake


def _check_refs(
    world: World, span: Span, dump: Dump, prefix: bytes, restored: dict[str, str]
) -> None:
    known = {
        versions[0].name: versions for versions in world.truth.of_partition(span.partition, prefix)
    }
    assert restored.keys() <= known.keys(), f"{dump} has refs that never were"
    for name, versions in known.items():
        during = [version for version in versions if version.meets(dump.began, dump.ended)]
        if name in restored:
            were = {version.commit_id for version in during}
            assert restored[name] in were, f"{name} was never {restored[name]} during {dump}"
        else:
            assert not _was_there(during, dump), f"{dump} lacks {name}"


def _was_there(versions: list[Version], dump: Dump) -> bool:
    """Whether a ref was there all the time that a dump took."""
    covered = dump.began
    for version in versions:
        if version.since > covered:
            return False
        covered = version.until
    return covered > dump.ended


def _check_commits(
    world: World, span: Span, dump: Dump, store: MemoryStore, repository: Repository
) -> None:
    originals = world.truth.commits[span.partition]
    restored = {
        record.name.decode(): record.message
        for record in Records(store, COMMITS, repository.partition).scan()
    }
    for commit_id, commit in restored.items():
        # What the id does not cover is noted by each server for itself.
        assert compute_id(commit) == commit_id == compute_id(originals[commit_id])
        assert restored.keys() >= set(commit.parents), f"{commit_id} lacks a parent"
    heads = {
        version.commit_id
        for versions in world.truth.of_partition(span.partition, BRANCHES.prefix)
        for version in versions
        if version.since < dump.began
    }
    assert heads <= restored.keys(), f"{dump} lacks commits: {heads - restored.keys()}"
