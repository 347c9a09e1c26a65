"""Random changes by several people, against a model: nothing of anybody is lost."""

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lakebed.clients.working_copy.errors import Conflicts
from lakebed.clients.working_copy.state import read_state
from tests.clients.working_copy.kit import Inside, Lake, inside, on_disk, write

__all__ = ["inside"]

Content = dict[str, bytes]

PATHS = st.sampled_from(["a", "b/c", "b/d"])
WRITTEN = st.sampled_from([b"1", b"2", b"3", None])
"""Of one size, so that sizes tell nothing; None: removed."""
WHO = st.sampled_from([0, 1])
ACTS = st.one_of(
    st.tuples(st.just("write"), WHO, PATHS, WRITTEN),
    st.tuples(st.just("stage"), PATHS, WRITTEN),
    st.tuples(st.just("commit staged")),
    st.tuples(st.just("pull"), WHO),
    st.tuples(st.just("commit"), WHO),
    st.tuples(st.just("commit"), WHO),
)


@dataclass
class ModelCopy:
    """A working copy as it should be."""

    base: Content
    files: Content


@dataclass
class Model:
    """A branch and its working copies as they should be."""

    head: Content
    staged: dict[str, bytes | None] = field(default_factory=dict)

    def pull(self, copy: ModelCopy, *, restore_deleted: bool = True) -> bool:
        """Bring in the changes of others; False, and nothing, if there are conflicts."""
        theirs = [
            path for path in _paths(copy.base, self.head) if _differ(copy.base, self.head, path)
        ]
        wanted = [path for path in theirs if _differ(copy.files, self.head, path)]
        strict = [path for path in wanted if path in copy.files or not restore_deleted]
        if any(_differ(copy.files, copy.base, path) for path in strict):
            return False
        for path in wanted:
            _set(copy.files, path, self.head.get(path))
        copy.base = dict(self.head)
        return True

    def commit(self, copy: ModelCopy) -> bool:
        if not self.pull(copy, restore_deleted=False):
            return False
        mine = [
            path for path in _paths(copy.files, self.head) if _differ(copy.files, self.head, path)
        ]
        for path in mine:
            # Even with the same bytes it is another object: the times of the files differ.
            if path in self.staged and not (self.staged[path] is None and path not in copy.files):
                return False
        for path in mine:
            _set(self.head, path, copy.files.get(path))
        copy.base = dict(self.head)
        return True

    def commit_staged(self) -> None:
        for path, content in self.staged.items():
            _set(self.head, path, content)
        self.staged.clear()


def _paths(*contents: Content) -> list[str]:
    return sorted({path for content in contents for path in content})


def _differ(one: Content, other: Content, path: str) -> bool:
    return one.get(path) != other.get(path)


def _set(content: Content, path: str, value: bytes | None) -> None:
    if value is None:
        content.pop(path, None)
    else:
        content[path] = value


class World:
    """The model and the real thing, side by side."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        lake.put("data/a", b"0")
        lake.commit()
        self.model = Model({"a": b"0"})
        self.copies = [ModelCopy({"a": b"0"}, {"a": b"0"}) for _ in range(2)]
        self.roots = [lake.folder / f"copy{number}" for number in range(2)]
        for root in self.roots:
            lake.clone(root)

    def write(self, who: int, path: str, content: bytes | None) -> None:
        root = self.roots[who]
        _set(self.copies[who].files, path, content)
        if content is None:
            (root / path).unlink(missing_ok=True)
        else:
            write(root, path, content)
            os.utime(root / path, (1_600_000_000, 1_600_000_000))

    def stage(self, path: str, content: bytes | None) -> None:
        if content is None:
            self.lake.delete(f"data/{path}")
            if path in self.model.head:
                self.model.staged[path] = None
            else:
                self.model.staged.pop(path, None)
        else:
            self.lake.put(f"data/{path}", content)
            self.model.staged[path] = content

    def commit_staged(self) -> None:
        self.lake.commit()
        self.model.commit_staged()

    def pull(self, who: int) -> None:
        assert _works(lambda: self.lake.pull(self.roots[who])) == self.model.pull(self.copies[who])

    def commit(self, who: int) -> None:
        done = _works(lambda: self.lake.commit_copy(self.roots[who]))
        assert done == self.model.commit(self.copies[who])

    def check(self) -> None:
        assert self.lake.files("main@", "data/") == self.model.head
        for root, copy in zip(self.roots, self.copies, strict=True):
            assert on_disk(root) == copy.files
            at_head = read_state(root).at_head
            assert self.lake.files(at_head, "data/") == copy.base
            local = [change[2] for change in self.lake.status(root, local_only=True)]
            changed = [
                p for p in _paths(copy.base, copy.files) if _differ(copy.base, copy.files, p)
            ]
            assert local == changed


def _works(work: object) -> bool:
    try:
        work()  # type: ignore[operator]
    except Conflicts:
        return False
    return True


@example(
    acts=[
        *(("write", 0, "a", b"1"), ("write", 1, "a", b"2"), ("stage", "b/c", b"1")),
        *(("commit", 0), ("pull", 1), ("commit", 1), ("write", 0, "b/c", b"2"), ("commit", 0)),
    ]
)
@given(acts=st.lists(ACTS, min_size=3, max_size=12))
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nothing_of_anybody_is_lost(inside: Inside, acts: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Lake(inside, Path(folder)))
        for name, *arguments in acts:
            getattr(world, str(name).replace(" ", "_"))(*arguments)
        world.check()
