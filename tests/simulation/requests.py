"""Requests that concern whole repositories; each compares its answer with the truth."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from lakebed.engine.errors import Deleting, NamespaceTaken, NotUnique, RepositoryNotFound
from lakebed.engine.model import Repository, RepositoryID
from lakebed.engine.repositories.removal import ACTIVE, DELETING
from lakebed.testing.simulation.history import ABSENT, ActorOperation
from tests.simulation.monitor import Span, overlap
from tests.simulation.worker import Worker
from tests.simulation.world import DEV, MAIN, Body, Process, World


def create(world: World, process: Process) -> None:
    name, namespace = world.random.choice(world.names), world.random.choice(world.namespaces)
    me = world.simulation.current_task
    make: Callable[[], Repository] = partial(
        process.lake.repositories.create, name, namespace, committer=process.name
    )
    if world.random.random() < 0.25:
        make = partial(process.lake.repositories.create_bare, name, namespace)

    def others(began: int) -> list[Span]:
        spans = [span for span in world.monitor.spans if span.meets(began, world.simulation.step)]
        return [span for span in spans if span.creator != me or span.since < began]

    with world.request() as began:
        try:
            made = make()
            world.told["created"] += 1
            spans = world.monitor.at(name, began, world.simulation.step)
            was_active = any(
                span.unique_id == made.unique_id and span.state == ACTIVE for span in spans
            )
            world.check(f"told {made} was created, but it never was", holds=was_active)
        except NamespaceTaken as error:
            world.told["NamespaceTaken"] += 1
            rival = any(overlap(span.namespace, namespace) for span in others(began))
            world.check(f"no repository was there, and yet: {error}", holds=rival)
        except NotUnique as error:
            world.told["NotUnique"] += 1
            rival = any(span.name == name for span in others(began))
            world.check(f"no repository was there, and yet: {error}", holds=rival)


def delete(world: World, process: Process) -> None:
    delete_repository(world, process, world.random.choice(world.names))


def delete_repository(world: World, process: Process, name: RepositoryID) -> None:
    """Delete a repository: all keys of all its branches are gone with it."""
    operation = ActorOperation("delete repository", None, ABSENT, world.simulation.step)
    for branch in (MAIN, DEV):
        world.histories[name, branch].writes.append(operation)
    world.monitor.deletes_under_way[name] += 1
    try:
        with world.request() as began:
            try:
                process.lake.repositories.delete(name)
                world.told["deleted"] += 1
                operation.succeeded = True
            except RepositoryNotFound:
                world.told["not found"] += 1
            check_not_active(world, name, began, "a delete of it ended")
        operation.ended = world.simulation.step
    finally:
        world.monitor.deletes_under_way[name] -= 1


def recreate(world: World, process: Process) -> None:
    """Delete a repository and make it again at once, perhaps in another namespace."""
    name, namespace = world.random.choice(world.names), world.random.choice(world.namespaces)
    delete_repository(world, process, name)
    with world.request(), suppress(NotUnique):
        process.lake.repositories.create(name, namespace, committer=process.name)
        world.told["recreated"] += 1
        Worker(world, process, name, DEV).fork()


def get(world: World, process: Process) -> None:
    name = world.random.choice(world.names)
    with world.request() as began:
        state, unique_id = ACTIVE, ""
        try:
            unique_id = process.lake.repositories.get(name).unique_id
        except Deleting:
            state = DELETING
        except RepositoryNotFound:
            check_not_active(world, name, began, "it was not found")
            return
        spans = world.monitor.at(name, began, world.simulation.step)
        seen = any(span.state == state and unique_id in {"", span.unique_id} for span in spans)
        world.check(f"{name} was never {state} with id {unique_id!r}", holds=seen)


def list_all(world: World, process: Process) -> None:
    with world.request() as began:
        listed = {(found.id, found.unique_id) for found in process.lake.repositories.list()}
        ended = world.simulation.step
        spans = [span for span in world.monitor.spans if span.state == ACTIVE]
        were = {(span.name, span.unique_id) for span in spans if span.meets(began, ended)}
        must = {
            (span.name, span.unique_id) for span in world.monitor.active_throughout(began, ended)
        }
        world.check(f"listed {listed}, may: {were}, must: {must}", holds=must <= listed <= were)


def check_not_active(world: World, name: str, began: int, what: str) -> None:
    throughout = world.monitor.active_throughout(began, world.simulation.step)
    world.check(
        f"{what}, but {name} was active all the time",
        holds=all(span.name != name for span in throughout),
    )


REQUESTS: Final[dict[str, Body]] = {
    "create_repository": create,
    "delete_repository": delete,
    "recreate_repository": recreate,
    "get_repository": get,
    "list_repositories": list_all,
}
