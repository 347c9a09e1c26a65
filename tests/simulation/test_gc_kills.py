"""What deletes, killed at every call to the store and the storage: whoever goes on ends right."""

from collections.abc import Callable
from functools import partial
from itertools import count

import pytest

from lakebed.engine.model import CommitID, TagID
from lakebed.reclaim.references import PurgeQuery
from lakebed.reclaim.retention import RetentionRules
from tests.kit.rounds import rounds
from tests.simulation.kills import KillsAt
from tests.simulation.objects import MAIN, REPOSITORY, REQUEST, CatalogWorld, Process

pytestmark = pytest.mark.slow

DAY = 86_400.0
ONE_WAY = rounds(1, long=0)
"""Whether to die before or after each call, and not both."""


def die_at_every_call(history: Callable[[KillsAt], None], *, least: int) -> None:
    """Play a history until its victim lives to the end; it must have made so many calls."""
    for at in count(1):
        for after in [at % 2 == 0] if ONE_WAY else [False, True]:
            simulation = KillsAt(at, after=after)
            history(simulation)
        if simulation.calls < at:
            break
    assert at > least


def upload(world: CatalogWorld, path: bytes, text: bytes) -> CommitID:
    world.catalog.uploads.upload(REPOSITORY, MAIN, path, [text])
    return world.catalog.commits.commit(REPOSITORY, MAIN, REQUEST).commit.id


def read(world: CatalogWorld, path: bytes) -> bytes:
    objects = world.catalog.objects
    with objects.read(objects.stat(REPOSITORY, MAIN, path)) as stream:
        return b"".join(stream)


def expire(process: Process, *, days: float) -> None:
    process.actor.runtime.sleep(days * DAY)
    process.reclaim.retention.expire(REPOSITORY, max_share=1.0)


def expiring(simulation: KillsAt) -> None:
    world = CatalogWorld(simulation)
    old, tagged, _, head = [upload(world, b"a", b"%d" % number) for number in range(4)]
    world.catalog.ref_changes.create_tag(REPOSITORY, TagID("v1"), tagged)
    world.reclaim.retention.set_rules(REPOSITORY, RetentionRules(1))
    victim, heir = world.process("victim"), world.process("heir")

    def passes(process: Process, first: float) -> None:
        for days in (first, 1.1, 1.1):
            expire(process, days=days)

    victim.actor.start(partial(passes, victim, 9))
    heir.actor.start(partial(passes, heir, 13))
    simulation.run()
    expired = set(world.onlooker.marks.expired(world.repository))
    assert old in expired
    assert not expired & {tagged, head}
    marks = world.onlooker.marks.records(world.repository).scan()
    assert {mark.name.decode() for mark in marks} == expired
    assert read(world, b"a") == b"3"


def test_a_pass_that_expires_commits() -> None:
    die_at_every_call(expiring, least=30)


def purging(simulation: KillsAt) -> None:
    world = CatalogWorld(simulation)
    upload(world, b"a", b"secret")
    upload(world, b"kept", b"kept")
    world.catalog.uploads.upload(REPOSITORY, MAIN, b"a", [b"staged"])

    def purge(process: Process, after: float) -> None:
        process.actor.runtime.sleep(after)
        process.reclaim.purges.purge(REPOSITORY, PurgeQuery("path", b"a"), reason="r", username="u")

    for name, after in (("victim", 0), ("heir", DAY)):
        process = world.process(name)
        process.actor.start(partial(purge, process, after))
    simulation.run()
    stored = [
        address
        for batch in world.block.inner.list_objects(world.repository.namespace.folder("repos"))
        for address in batch.column("address").to_pylist()
    ]
    assert len(stored) == 1
    assert read(world, b"kept") == b"kept"


def test_a_purge() -> None:
    die_at_every_call(purging, least=30)
