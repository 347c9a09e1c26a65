"""What servers and clients do to the model, step by step."""

from dataclasses import replace
from functools import partial
from typing import Protocol

from tests.simulation.gc_world import (
    COPY_WINDOW,
    LINK_LIFE,
    MULTIPART_LIFE,
    SCAN_LIMIT,
    Branch,
    Entry,
    GCWorld,
    Link,
    Process,
    Steps,
)

TRIES = 6

BRANCH_IS_READ = 3
"""At which step an upload has read the branch, and not written to it yet."""
ENTRY_IS_WRITTEN = 6
"""At which step it has, and is to find out whether it was in time."""
TOKENS_ARE_READ = 5
"""At which step a commit of one sealed token has read it, and not stored its record yet."""


class IsRecent(Protocol):
    def __call__(self) -> bool: ...


def write(world: GCWorld, name: str, key: str, entry: Entry, is_recent: IsRecent) -> Steps:
    """Stage an entry as the server's writers do; true if it was acknowledged.

    The age is looked at before the entry is written and before it is acknowledged. Who finds it too
    old then puts back what was there. That may be long after, so the entry names what it replaced.
    """
    repository_uid = world.repository_uid if entry.path is None else uid_of(entry.path)
    for _ in range(TRIES):
        before = world.branch(repository_uid, name)
        yield
        if before is None:
            return False
        token = world.staged.setdefault(before.staging, {})
        replaced = token.get(key)
        yield
        if not is_recent():
            return False
        yield
        if token.get(key) is not replaced:
            continue
        old = replaced.path if replaced is not None else None
        mine = token[key] = replace(entry, late=not is_recent(), replaced=old)
        yield
        after = world.branch(repository_uid, name)
        if not is_recent():
            yield
            if token.get(key) is mine:
                _put_back(token, key, replaced)
            return False
        if after is None or after.uid != before.uid:
            return False
        if after.staging == before.staging:
            if token.get(key) is mine:
                world.check_entry(mine, f"an acknowledged write to {name}")
            return True
    return False


def uid_of(path: str) -> str:
    return path.split("/")[1]


def _put_back(token: dict[str, Entry], key: str, replaced: Entry | None) -> None:
    if replaced is None:
        del token[key]
    else:
        token[key] = replace(replaced)


def upload(world: GCWorld, process: Process, name: str, key: str) -> Steps:
    if world.repository_uid is None:
        return False
    path = world.issue(process, name)
    yield
    world.put(path)
    yield
    # Few contents, so that some uploads are identical to what is there.
    entry = Entry(path, world.random.randint(0, 3), whole=world.random.random() < 0.3)
    return (yield from write(world, name, key, entry, partial(world.is_recent, process, path)))


def read(world: GCWorld, name: str, key: str) -> Entry | None:
    branch = world.branches.get(name)
    if branch is None:
        return None
    for token in branch.tokens:
        found = world.staged.get(token, {}).get(key)
        if found is not None:
            return found
    return world.entries(branch.head).get(key)


def copy(world: GCWorld, process: Process, name: str, source: str, key: str, target: str) -> Steps:
    """Copy within a branch or between two; share what a commit names, or is young and at hand."""
    found = read(world, source, key)
    yield
    if found is None or found.path is None:
        return False
    entry = found
    shares = source == name and uid_of(found.path) == world.repository_uid
    if shares and world.age(process, found.path) < COPY_WINDOW:
        fresh = partial(world.is_recent, process, found.path)
        if (yield from write(world, name, target, entry, fresh)):
            return True
    branch = world.branches.get(source)
    if branch is not None and world.entries(branch.head).get(key) == found:
        return (yield from write(world, name, target, entry, lambda: True))
    if found.path not in world.objects or world.repository_uid is None:
        # Gone while we slept: the copy fails, as it must not acknowledge anything.
        return False
    path = world.issue(process, name)
    world.put(path)
    yield
    entry = replace(found, path=path)
    return (yield from write(world, name, target, entry, partial(world.is_recent, process, path)))


def remove(world: GCWorld, name: str, key: str) -> Steps:
    return (yield from write(world, name, key, Entry(None), lambda: True))


def move(world: GCWorld, process: Process, name: str, key: str, target: str) -> Steps:
    if not (yield from copy(world, process, name, name, key, target)):
        return False
    return (yield from remove(world, name, key))


def link(world: GCWorld, process: Process, name: str, key: str) -> Steps:
    """Get an address, upload there, link it; the client may sleep anywhere."""
    if world.repository_uid is None:
        return False
    path = world.issue(process, name)
    world.links[path] = Link(path, world.now + process.offset + LINK_LIFE, name, key)
    yield world.random.randint(0, LINK_LIFE)
    # A presigned request; a client with keys of its own may also come too late.
    if world.random.random() < 0.9:
        world.put(path)
    yield world.random.randint(0, LINK_LIFE // 2)
    return (yield from link_address(world, process, name, key, path))


def may_link(world: GCWorld, process: Process, record: Link | None) -> bool:
    """Whether an address was given out lately, and was not linked yet."""
    is_open = record is not None and not record.consumed
    return record is not None and is_open and world.now + process.offset < record.expiry


def link_address(world: GCWorld, process: Process, name: str, key: str, path: str) -> Steps:
    """Stage an entry that names an address which was given out."""
    record = world.links.get(path)
    if not may_link(world, process, record) or path not in world.objects:
        return False
    assert record is not None
    record.consumed = True
    yield
    entry = Entry(path, world.random.randint(0, 3))
    return (yield from write(world, name, key, entry, partial(world.is_recent, process, path)))


def multipart(world: GCWorld, process: Process, name: str, key: str) -> Steps:
    """Begin an upload, complete it perhaps days later; its record goes when it is staged."""
    if world.repository_uid is None:
        return False
    path = world.issue(process, name)
    world.multiparts[path] = world.now + process.offset
    yield world.random.randint(0, MULTIPART_LIFE)
    if path not in world.multiparts:
        return False
    world.put(path)
    yield
    entry = Entry(path, world.random.randint(0, 3))
    if not (yield from write(world, name, key, entry, lambda: path in world.multiparts)):
        return False
    yield
    world.multiparts.pop(path, None)
    return True


def expire(world: GCWorld) -> Steps:
    """What the Cleaner does to links and multipart uploads."""
    for path, record in list(world.links.items()):
        if world.now > record.expiry:
            world.links.pop(path, None)
            yield
    for path, created in list(world.multiparts.items()):
        if world.now > created + MULTIPART_LIFE:
            world.multiparts.pop(path, None)
            yield
    return True


def drop(world: GCWorld, tokens: tuple[int, ...]) -> Steps:
    """What the Cleaner does to tokens that no branch names."""
    for _ in range(world.random.randint(0, 5)):
        yield
    for token in tokens:
        world.staged.pop(token, None)
        yield
    return True


def commit(world: GCWorld, process: Process, name: str) -> Steps:
    """Seal, scan, build, store the record, publish; rebuild when the branch moved."""
    before = world.branches.get(name)
    yield
    if before is None:
        return False
    sealed = replace(before, staging=world.new_token(), sealed=before.tokens)
    yield
    if not world.swap(name, before, sealed):
        return False
    mine = sealed.sealed
    for _ in range(TRIES):
        current = world.branches.get(name)
        yield
        if current is None or current.uid != before.uid:
            return False
        mine = tuple(token for token in current.sealed if token in mine)
        if not mine or current.sealed[-len(mine) :] != mine:
            return False
        if (yield from _publish(world, process, name, current, mine)):
            yield from drop(world, mine)
            return True
    return False


def _publish(
    world: GCWorld, process: Process, name: str, current: Branch, mine: tuple[int, ...]
) -> Steps:
    scanned = world.now + process.offset
    entries = dict(world.entries(current.head))
    for token in reversed(mine):
        for key, entry in list(world.staged.get(token, {}).items()):
            _apply(world, current, entries, key, entry)
        yield
    yield
    if entries == world.entries(current.head):
        kept = current.sealed[: len(current.sealed) - len(mine)]
        return world.swap(name, current, replace(current, sealed=kept))
    number = world.new_commit(current.head, entries)
    yield
    if not scan_is_young(world, process, scanned):
        return False
    yield
    kept = current.sealed[: len(current.sealed) - len(mine)]
    return world.swap(name, current, replace(current, head=number, sealed=kept))


def scan_is_young(world: GCWorld, process: Process, scanned: int) -> bool:
    return world.now + process.offset - scanned < SCAN_LIMIT


def _apply(
    world: GCWorld, current: Branch, entries: dict[str, Entry], key: str, entry: Entry
) -> None:
    committed = world.entries(current.head).get(key)
    if entry.path is None:
        entries.pop(key, None)
    elif committed is not None and committed.content == entry.content:
        entries[key] = committed  # identical: the commit keeps the address it has
    else:
        entries[key] = entry


def merge(world: GCWorld, source: str, name: str) -> Steps:
    into, branch = world.branches.get(source), world.branches.get(name)
    yield
    if into is None or branch is None:
        return False
    entries = {**world.entries(branch.head), **world.entries(into.head)}
    number = world.new_commit(branch.head, entries)
    yield
    return world.swap(name, branch, replace(branch, head=number))


def hard_reset(world: GCWorld, name: str, number: int) -> Steps:
    branch = world.branches.get(name)
    yield
    return branch is not None and world.swap(name, branch, replace(branch, head=number))


def reset_all(world: GCWorld, name: str) -> Steps:
    branch = world.branches.get(name)
    yield
    if branch is None:
        return False
    fresh = replace(branch, staging=world.new_token(), sealed=())
    if not world.swap(name, branch, fresh):
        return False
    return (yield from drop(world, branch.tokens))


def reset_key(world: GCWorld, name: str, key: str) -> Steps:
    """Write back what the head holds: an entry that a commit record names."""
    branch = world.branches.get(name)
    yield
    if branch is None or not any(key in world.staged.get(token, {}) for token in branch.tokens):
        return False
    entry = world.entries(branch.head).get(key, Entry(None))
    yield
    world.staged.setdefault(branch.staging, {})[key] = replace(entry)
    return True


def delete_branch(world: GCWorld, name: str) -> Steps:
    yield
    branch = world.branches.pop(name, None)
    return branch is not None and (yield from drop(world, branch.tokens))


def create_branch(world: GCWorld, name: str, source: str) -> Steps:
    branch = world.branches.get(source)
    yield
    if branch is None or name in world.branches:
        return False
    world.branches[name] = world.new_branch(branch.head)
    return True


def tag(world: GCWorld, name: str, source: str) -> Steps:
    branch = world.branches.get(source)
    yield
    if branch is not None:
        world.tags[name] = branch.head
    return branch is not None


def repository(world: GCWorld, *, restores: bool = True) -> Steps:
    """Dump the refs, delete the repository, make it again in its namespace, restore them there.

    Or make a new one there, which has nothing to do with the former but its name and namespace.
    """
    dumped = dict(world.commits), {name: one.head for name, one in world.branches.items()}
    yield
    former = tuple(uid for uid in (world.repository_uid, *world.adopted) if uid is not None)
    world.repository_uid = None
    for records in (world.branches, world.tags, world.links, world.multiparts, world.commits):
        while records:
            records.popitem()
            yield
    world.owner = f"a{world.number()}"
    yield
    world.adopted = ()
    if not restores:
        world.branches["main"] = world.new_branch(world.new_commit(None, {}, published=True))
        world.repository_uid = world.owner
        return True
    world.repository_uid = world.owner
    for number, record in dumped[0].items():
        world.commits[number] = record
        yield
    # After the commits, never before: see the restore of refs.
    world.adopted = former
    yield
    for name, head in dumped[1].items():
        world.branches[name] = world.new_branch(head)
        yield
    return True
