"""What must be in order when all is over: branches, what is left in the store, dumps."""

from collections.abc import Iterator
from contextlib import suppress

from lakebed.block import Namespace
from lakebed.engine.engine import Engine
from lakebed.engine.errors import Deleting, EntryNotFound, NoChanges, NotFound
from lakebed.engine.keys import BRANCHES, DELETED_PARTITION, DROPPED_PARTITION, GRAVELER, LIVE, TAGS
from lakebed.engine.model import BranchID, RepositoryID, TagID
from lakebed.engine.repositories.removal import ACTIVE
from lakebed.kv.records import Records
from lakebed.kv.schema import METADATA_PARTITION
from lakebed.lake.commits import HeadChanges
from lakebed.testing.simulation.history import ABSENT
from tests.kit import staging
from tests.simulation.dumps import check_dump
from tests.simulation.monitor import Span, overlap
from tests.simulation.names import check_freed
from tests.simulation.worker import COMMIT
from tests.simulation.world import KEYS, LONGEST_REQUEST_SECONDS, SURELY_PAST_GRACE_SECONDS, World


def check_end(world: World) -> None:
    """Check everything, with nobody at work any more."""
    for dump in world.dumps:
        check_dump(world, dump)
    for history in world.histories.values():
        history.check_creates(KEYS)
    check_refused(world)
    for read in world.reads if world.truth.was_late else ():
        read.check(world)
    check_shown(world)
    check_committed(world)
    check_freed(world)
    check_quiet(world)
    check_shown(world)
    world.truth.check_swaps(KEYS, world.held)
    world.check_no_violations()


# Conditional writes


def check_refused(world: World) -> None:
    """Check that refused writes were never visible, and are in no commit, published or not."""
    writes = [write for history in world.histories.values() for write in history.writes]
    refused = {write.value for write in writes if write.refused and write.value != ABSENT}
    seen = world.truth.staged_values() & refused
    world.check(f"{seen} were refused, and staged", holds=not seen)
    for partition, commits in world.truth.commits.items():
        for commit_id in commits:
            held = refused.intersection(world.held(partition, commit_id).values())
            world.check(f"{held} were refused, and are in {commit_id}", holds=not held)


# Branches


def check_shown(world: World) -> None:
    """Every branch shows what was acknowledged."""
    for name, branch in branches(world):
        shown = read_all(world.onlooker.lake, name, branch)
        check_read(world, name, branch, "the branch at the end", shown)


def check_committed(world: World) -> None:
    """Every branch can be committed, and then its head holds what it showed."""
    lake = world.onlooker.lake
    for name, branch in branches(world):
        shown = read_all(lake, name, branch)
        with suppress(NoChanges):
            HeadChanges(lake).commit(name, branch, COMMIT)
        repository = lake.repositories.get(name)
        head = lake.branches.get(repository, branch).commit_id
        contents = dict(world.held(repository.partition, head))
        assert contents.keys() == shown.keys(), f"{branch} did not commit what it shows"
        check_read(world, name, branch, "the last commit", contents)


def branches(world: World) -> Iterator[tuple[RepositoryID, BranchID]]:
    """Iterate over the branches that are there."""
    lake = world.onlooker.lake
    for name, branch in world.histories:
        with suppress(NotFound, Deleting):
            lake.branches.get(lake.repositories.get(name), branch)
            yield name, branch


def check_read(
    world: World, name: RepositoryID, branch: BranchID, what: str, shown: dict[bytes, str]
) -> None:
    now = world.simulation.step + 1
    world.histories[name, branch].check_read(what, shown, KEYS, now, now)


def read_all(lake: Engine, name: RepositoryID, ref: str) -> dict[bytes, str]:
    """Read every key."""
    shown = {}
    for key in KEYS:
        with suppress(EntryNotFound):
            shown[key] = staging.get(lake, name, ref, key).address
    return shown


# What is left in the store


def check_quiet(world: World) -> None:
    """With nobody at work, what died must be gone in minutes, and the rest in its time."""
    cleaner, runtime = world.onlooker.cleaner, world.onlooker.runtime
    for _ in range(6):  # a dead Cleaner's lease, then the two minutes
        counts = cleaner.run_once()
        if counts.ran and not counts.creations_waiting:
            break
        runtime.sleep(45)
    for record in world.monitor.records():
        world.check(f"{record} is still there", holds=record.message.state == ACTIVE)
    check_nothing_is_blocked(world)
    check_no_name_is_blocked(world)
    for seconds in (SURELY_PAST_GRACE_SECONDS, 30, 30, 30):
        cleaner.run_once()
        runtime.sleep(seconds)
    world.check("the Cleaner did not get the lease", holds=cleaner.run_once().ran)
    check_orphans(world)
    world.check_no_violations()


def check_nothing_is_blocked(world: World) -> None:
    """Make a repository in every place that is free, and one of every name that is free."""
    repositories = world.onlooker.lake.repositories
    active = list(repositories.list())
    taken = [repository.namespace for repository in active]
    names = [name for name in world.names if name not in {repository.id for repository in active}]
    places = [
        place for place in world.namespaces if not any(overlap(place, each) for each in taken)
    ]
    pairs = [(RepositoryID("fresh"), place) for place in places]
    pairs += [(name, Namespace.parse(f"mem://fresh/{name}")) for name in names]
    for name, place in pairs:
        world.monitor.deletes_under_way[name] += 1
        repositories.create_bare(name, place)  # raises if something is in its way
        repositories.delete(name)


def check_no_name_is_blocked(world: World) -> None:
    """What died while it was creating a branch or a tag keeps nobody from using the name."""
    lake = world.onlooker.lake
    for repository in lake.repositories.list():
        branches = Records(world.monitor.store, BRANCHES, repository.partition).scan()
        tags = Records(world.monitor.store, TAGS, repository.partition).scan()
        found: list[tuple[str, int]] = [
            (record.name.decode(), record.message.state) for record in branches
        ]
        found += [(record.name.decode(), record.message.state) for record in tags]
        heads = [branch.commit_id for branch in lake.branches.list(repository)]
        taken = {name for name, state in found if state == LIVE}
        for name in sorted({name for name, _ in found} - taken) if heads else ():
            world.told["creating at the end"] += 1
            lake.refs.create_tag(repository.id, name, heads[0])
            lake.refs.delete_tag(repository.id, TagID(name))
            lake.refs.create_branch(repository.id, name, heads[0])
            lake.refs.delete_branch(repository.id, BranchID(name))


def check_orphans(world: World) -> None:
    """Compare all that is in the store with what active repositories name."""
    store, now = world.monitor.store, world.simulation.step
    partitions = {GRAVELER, METADATA_PARTITION}
    claims = {}
    tokens: set[bytes] = set()
    for span in world.monitor.active_throughout(now + 1, now):
        partitions.add(span.partition)
        claims[str(span.namespace)] = span.unique_id
        for versions in world.truth.of_partition(span.partition, BRANCHES.prefix):
            if versions[-1].until > now:
                tokens.update(token.encode() for token in versions[-1].tokens)
        count_unpublished(world, span)
    found = world.monitor.claims()
    world.check(f"claims are {found}, not {claims}", holds=found == claims)
    announced = {entry.key for entry in store.scan(DROPPED_PARTITION)}
    world.check(f"announced in vain: {announced - tokens}", holds=announced <= tokens)
    deleted = [entry.key for entry in store.scan(DELETED_PARTITION)]
    world.check(f"deleted for ever: {deleted}", holds=not deleted)
    for (partition, key), seconds in world.monitor.erased.items():
        check_late(world, partition, key, seconds, "erased")
    for partition, key in world.monitor.revived:
        check_late(world, partition, key, world.truth.written[partition, key], "written")
    kept = partitions | tokens | {DROPPED_PARTITION, DELETED_PARTITION}
    for (partition, key), seconds in world.monitor.store.tombstones.items():
        if partition not in kept:
            check_late(world, partition, key, seconds, "deleted")
    for orphan in set(store.partitions()) - partitions - tokens - {DROPPED_PARTITION}:
        check_strays(world, orphan)


def check_strays(world: World, partition: bytes) -> None:
    """What nothing names was written by requests slower than any may be, too late to be cleaned."""
    for entry in world.monitor.store.scan(partition):
        written = world.truth.written[partition, entry.key]
        check_late(world, partition, entry.key, written, "written")
        world.strays += 1


def check_late(world: World, partition: bytes, key: bytes, seconds: float, what: str) -> None:
    """Check that no request that began when a key had an owner could be at work any more."""
    owner = key if partition == DROPPED_PARTITION else partition
    late = seconds - world.truth.disowned.get(owner, 0.0)
    world.check(
        f"{key!r} in {partition!r} was {what} {late} s after it lost its owner",
        holds=late > LONGEST_REQUEST_SECONDS,
    )


def count_unpublished(world: World, span: Span) -> None:
    """Count commit records that no branch ever led to; they do no harm, their parents are there."""
    commits = world.truth.commits[span.partition]
    published: set[str] = set()
    for versions in world.truth.of_partition(span.partition, BRANCHES.prefix):
        todo = [version.commit_id for version in versions]
        while todo:
            commit_id = todo.pop()
            if commit_id not in published:
                published.add(commit_id)
                todo += commits[commit_id].parents
    world.unpublished += len(commits.keys() - published)
    for commit in commits.values():
        missing = set(commit.parents) - commits.keys()
        world.check(f"{missing} is a parent, and not there", holds=not missing)
