"""The races of deleting online, and what a server does instead: two looks, again and again.

Each scenario is a race in which an object seems to be of no use to anyone, while somebody is about
to name it. A server that reclaims continuously takes a look every few ticks meanwhile. Whoever
deletes at the moment at which an object seems to be of no use loses data: `hasty_…` below are such
servers, and the tests see each of them fail.

Run one again:

    python -m lakebed.testing.simulation.explore tests.simulation.gc_online:restaged --seed 7
"""

from collections.abc import Callable

from lakebed.testing.simulation.explore import Scenario
from tests.simulation import gc_actors
from tests.simulation.gc_histories import History, delayed
from tests.simulation.gc_world import GAP, LINK_LIFE, MIN_AGE, GCWorld, Link, Steps

EVERY = 15
"""Ticks between two looks of the server."""

KEY, OTHER_KEY = "a", "b"


def reclaim(history: History, *, ticks: int) -> None:
    """Let the server look, for so long."""
    for at in range(0, ticks, EVERY):
        after = at + history.random.randint(0, EVERY - 1)
        history.start(history.collector.run(history.process()), after=after)


def end(history: History) -> None:
    history.finish()
    history.world.check()
    history.settle()


def upload(history: History, key: str = KEY) -> Steps:
    return gc_actors.upload(history.world, history.process(), "main", key)


def restaged(seed: int) -> None:
    """Overwritten, and staged again under a new token.

    A writer has staged its entry and not looked at the branch again. Another overwrites it. A
    commit seals the token, so the first writer stages its entry once more, under the new token.
    """
    history = History(seed, naps=0.01, pace=2)
    world, draw = history.world, history.random
    sleep = draw.randint(10, 60)
    history.start(delayed(upload(history), gc_actors.ENTRY_IS_WRITTEN, sleep))
    history.start(upload(history), after=draw.randint(8, 20))
    history.start(gc_actors.commit(world, history.process(), "main"), after=draw.randint(10, 40))
    reclaim(history, ticks=MIN_AGE + 4 * GAP)
    end(history)


def linked_twice(seed: int) -> None:
    """An address is linked again, under another key, when the first entry is gone already."""
    history = History(seed, naps=0.01, pace=2)
    world, draw, process = history.world, history.random, history.process()
    path = world.issue(process, "main")
    world.links[path] = Link(path, world.now + LINK_LIFE, "main", KEY)
    world.put(path)
    for key in (KEY, OTHER_KEY):
        history.start(
            gc_actors.link_address(world, process, "main", key, path), after=draw.randint(0, 40)
        )
    history.start(gc_actors.remove(world, "main", KEY), after=draw.randint(0, 60))
    history.start(gc_actors.expire(world), after=LINK_LIFE + draw.randint(0, 20))
    reclaim(history, ticks=MIN_AGE + 4 * GAP)
    end(history)


def copied_while_deleted(seed: int) -> None:
    """A copy has read an entry, which is deleted before the copy is staged."""
    history = History(seed, naps=0.02, pace=2)
    world, draw, process = history.world, history.random, history.process()
    history.start(upload(history))
    copy = gc_actors.copy(world, process, "main", "main", KEY, OTHER_KEY)
    begun = draw.randint(8, 40)
    history.start(delayed(copy, draw.randint(1, 4), draw.randint(0, 2 * GAP)), after=begun)
    history.start(gc_actors.remove(world, "main", KEY), after=begun + draw.randint(0, 30))
    reclaim(history, ticks=MIN_AGE + 4 * GAP)
    end(history)


def committed_meanwhile(seed: int) -> None:
    """A commit has read an entry, which is overwritten before the commit is published."""
    history = History(seed, naps=0.01, pace=2)
    world, draw = history.world, history.random
    history.start(upload(history))
    at = draw.choice((20, MIN_AGE + 50))
    writer = delayed(upload(history), gc_actors.BRANCH_IS_READ, draw.randint(5, 30))
    history.start(writer, after=at)
    commit = gc_actors.commit(world, history.process(), "main")
    pause = draw.randint(0, 4 * GAP)
    history.start(delayed(commit, gc_actors.TOKENS_ARE_READ, pause), after=at + draw.randint(4, 9))
    reclaim(history, ticks=MIN_AGE + 10 * GAP)
    end(history)


SCENARIOS: dict[str, Scenario] = {
    "restaged": restaged,
    "linked_twice": linked_twice,
    "copied_while_deleted": copied_while_deleted,
    "committed_meanwhile": committed_meanwhile,
}


# Servers that delete online


def is_named(world: GCWorld, path: str) -> bool:
    """Whether anything names an object at this moment, in staging or in a published commit."""
    staged = (
        entry
        for branch in world.branches.values()
        for token in branch.tokens
        for entry in world.staged.get(token, {}).values()
    )
    committed = (
        entry
        for commit in world.commits.values()
        if commit.published
        for entry in commit.entries.values()
    )
    return any(entry.path == path for entry in (*staged, *committed))


def hasty_write(write: Callable[..., Steps]) -> Callable[..., Steps]:
    """A writer that deletes what it replaced, once nothing names that any more."""

    def writing(world: GCWorld, name: str, key: str, *arguments: object) -> Steps:
        replaced = gc_actors.read(world, name, key)
        is_written = yield from write(world, name, key, *arguments)
        if is_written and replaced is not None and replaced.path is not None:
            yield
            if replaced.path in world.objects and not is_named(world, replaced.path):
                world.delete_object(replaced.path)
        return is_written

    return writing
