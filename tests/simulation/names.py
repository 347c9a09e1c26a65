"""Requests that make branches and tags under the same few names, delete them, and look them up.

`Truth` checks that a name never is a branch and a tag at once. Here answers are compared with what
was there.
"""

from typing import Final

from lakebed.engine.errors import BranchNotFound, NotUnique, RefNotFound, TagNotFound
from lakebed.engine.keys import BRANCHES, TAGS
from lakebed.engine.model import BranchID, Repository, TagID
from tests.simulation.truth import Version
from tests.simulation.world import MAIN, Body, Process, World

NAMES: Final = ("x", "y")


def make_branch(world: World, process: Process) -> None:
    _make(world, process, BRANCHES.prefix)


def make_tag(world: World, process: Process) -> None:
    _make(world, process, TAGS.prefix)


def _make(world: World, process: Process, prefix: bytes) -> None:
    name = world.random.choice(NAMES)
    refs = process.lake.refs
    create = refs.create_branch if prefix == BRANCHES.prefix else refs.create_tag
    with world.request() as began:
        repository = process.lake.repositories.get(world.names[0])
        try:
            create(repository.id, name, MAIN)
        except NotUnique:
            world.told["NotUnique"] += 1
            there = _versions(world, repository, name, began)
            world.check(f"{name} was refused as taken, but it was free", holds=bool(there))
            return
        world.told[f"made {prefix.decode()}"] += 1
        made = _versions(world, repository, name, began, prefix)
        new = any(each.since >= began for each in made)
        world.check(f"told that {prefix.decode()}{name} was made, but it never was", holds=new)


def free_branch(world: World, process: Process) -> None:
    name = BranchID(world.random.choice(NAMES))
    with world.request() as began:
        world.freed.append((BRANCHES.prefix + name.encode(), began))
        try:
            process.lake.refs.delete_branch(world.names[0], name)
        except BranchNotFound:
            world.told["BranchNotFound"] += 1


def free_tag(world: World, process: Process) -> None:
    name = TagID(world.random.choice(NAMES))
    with world.request() as began:
        world.freed.append((TAGS.prefix + name.encode(), began))
        try:
            process.lake.refs.delete_tag(world.names[0], name)
        except TagNotFound:
            world.told["TagNotFound"] += 1


def find_name(world: World, process: Process) -> None:
    """Look a name up, as a branch, as a tag and in lists: what is found must have been made."""
    name = world.random.choice(NAMES)
    lake = process.lake
    with world.request() as began:
        repository = lake.repositories.get(world.names[0])
        try:
            lake.resolver.resolve(repository, name)
            found = True
        except RefNotFound:
            found = False
        listed = [each.id for each in lake.branches.list(repository)]
        tagged = [each.id for each in lake.tags.list(repository)]
        seen = found or name in listed or name in tagged
        there = _versions(world, repository, name, began)
        world.check(f"{name} was found, but it never existed", holds=bool(there) or not seen)
        throughout = [each for each in there if each.since < began and each.until > _now(world)]
        world.check(f"{name} was not found, but it was there", holds=found or not throughout)


def check_freed(world: World) -> None:
    """A branch or a tag ends only after someone began to delete it."""
    for (_, key), versions in world.truth.versions.items():
        if key.rpartition(b"/")[2].decode() in NAMES:
            ended = [each for each in versions if each.until <= _now(world)]
            for version in ended:
                asked = any(which == key and began <= version.until for which, began in world.freed)
                world.check(f"{version} ended, but nobody deleted it", holds=asked)


def _versions(
    world: World, repository: Repository, name: str, began: int, prefix: bytes | None = None
) -> list[Version]:
    """All branches and tags that had a name since a step."""
    prefixes = [BRANCHES.prefix, TAGS.prefix] if prefix is None else [prefix]
    return [
        version
        for each in prefixes
        for version in world.truth.versions.get((repository.partition, each + name.encode()), [])
        if version.meets(began, _now(world))
    ]


def _now(world: World) -> int:
    return world.simulation.step


REQUESTS: Final[dict[str, Body]] = {
    "make_branch": make_branch,
    "make_tag": make_tag,
    "free_branch": free_branch,
    "free_tag": free_tag,
    "find_name": find_name,
}
