"""A process dies after any of its steps, on the disk or on the server; the next one goes on."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from lakebed.clients.working_copy import folder
from lakebed.clients.working_copy.copy import SyncSummary
from lakebed.clients.working_copy.state import read_state
from lakebed.wire.refs import Commit, LogCommitsQuery
from tests.clients.working_copy.kit import Inside, Lake, inside, md5, on_disk, write

__all__ = ["inside"]

_STEPS: Final = {"mkdir", "rename", "unlink", "rmdir"}
"""What changes something on the disk that another process can see, beside new drafts."""


class Died(BaseException):
    """What ends a process: nothing that it would have done afterwards is done."""


class Mortal:
    """Counts the steps of a process, and ends it after one of them."""

    def __init__(self, last: int) -> None:
        self._left = last

    def step(self) -> None:
        self._left -= 1
        self.check()

    def check(self) -> None:
        if self._left <= 0:
            raise Died

    def __getattr__(self, name: str) -> Any:
        """Stand in for the module `os`."""
        real = getattr(os, name)
        if name not in _STEPS:
            return real

        def call(*arguments: Any, **options: Any) -> None:
            self.check()
            real(*arguments, **options)
            self.step()

        return call


@contextmanager
def mortal(lake: Lake, last: int) -> Iterator[None]:
    """Let what runs here die after a step."""
    life, stream = Mortal(last), lake.client.open

    @contextmanager
    def counted(*arguments: Any, **options: Any) -> Iterator[Any]:
        life.check()
        with stream(*arguments, **options) as answer:
            life.step()
            yield answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder, "os", life)
        patch.setattr(lake.client, "open", counted)
        yield


def survives(lake: Lake, last: int, work: Callable[[], object]) -> bool:
    """Run something that dies after a step, if it has so many."""
    with mortal(lake, last):
        try:
            work()
        except Died:
            return False
    return True


@pytest.fixture
def lake(inside: Inside, tmp_path: Path) -> Lake:
    made = Lake(inside, tmp_path)
    for path in ("changed", "mine", "in/theirs1", "in/mine1"):
        made.put(f"data/{path}", "0")
    made.commit()
    return made


def test_a_clone_goes_on_wherever_it_died(lake: Lake, tmp_path: Path) -> None:
    whole = lake.files(prefix="data/")
    for last in count(start=1):
        root = tmp_path / f"copy{last}"
        alive = survives(lake, last, lambda root=root: lake.clone(root))  # type: ignore[misc]
        assert on_disk(root).items() <= whole.items() if root.exists() else True
        lake.clone(root) if not alive and not _is_done(root) else None
        assert on_disk(root) == whole
        assert lake.status(root) == []
        assert _leftovers(root) == []
        if alive:
            break
    assert last > 10


def test_a_commit_goes_on_wherever_it_died(lake: Lake, tmp_path: Path) -> None:
    """It pulls the changes of others first, so it has all steps of a pull too."""
    root = tmp_path / "copy"
    lake.clone(root)
    for last in count(start=1):
        before, mine = _prepare(lake, root, last)
        after = {**before, **mine}
        del after[f"in/mine{last}"]
        alive = survives(lake, last, lambda: lake.commit_copy(root, "mine"))
        # Others see all or nothing; no file is half there, and none of mine is gone.
        assert _listed(lake, "main@") in (before, after)
        shown = _hashed(on_disk(root))
        assert mine.items() <= shown.items()
        assert shown.items() <= {**after, f"in/theirs{last}": md5(b"0")}.items()
        if not alive:
            lake.commit_copy(root, "mine")
        assert _listed(lake, "main@") == _hashed(on_disk(root)) == after
        assert [item.message for item in _log(lake, 2)] == ["mine", "by others"]
        assert lake.stat("staged").checksum == md5(str(last).encode())
        assert lake.branches() == ["main"]
        assert lake.status(root) == []
        assert _leftovers(root) == []
        assert read_state(root).active_operation == ""
        if alive:
            break
    assert last > 30


def test_files_of_an_interrupted_pull_are_not_local_changes(lake: Lake, tmp_path: Path) -> None:
    root = tmp_path / "copy"
    lake.clone(root)
    for content in ("1", "2"):
        lake.put("data/changed", content)
        lake.put("data/mine", content)
        lake.commit()
        if content == "1":
            died = (not survives(lake, last, lambda: lake.pull(root)) for last in count(start=1))
            assert any(dead and on_disk(root)["changed"] == b"1" for dead in died)
            assert on_disk(root)["mine"] == b"0"
    lake.pull(root)
    assert on_disk(root) == lake.files(prefix="data/")


def test_a_checkout_goes_on_wherever_it_died(lake: Lake, tmp_path: Path) -> None:
    root = tmp_path / "copy"
    lake.clone(root)
    first, old = on_disk(root), lake.head()
    lake.put("data/changed", "1")
    lake.delete("data/mine")
    lake.commit()

    def checkout(ref: str | None) -> None:
        with lake.copy(root) as opened:
            opened.checkout(ref)

    # Its steps are those of a clone and a pull: some of them will do.
    for last in count(start=1, step=4):
        checkout("main")
        write(root, "new", "mine")
        alive = survives(lake, last, lambda: checkout(old))
        # Without saying again what to, unless it had not begun.
        checkout(None if read_state(root).active_operation else old)
        assert on_disk(root) == first
        assert _leftovers(root) == []
        if alive:
            break
    assert last > 15


def test_an_interrupted_clone_is_reported_before_and_after(lake: Lake, tmp_path: Path) -> None:
    def told_after(dies_at: int, root: Path) -> tuple[SyncSummary, int, int]:
        assert not survives(lake, dies_at, lambda: lake.clone(root))
        there = len(on_disk(root))
        lake.transfers.expected.clear()
        return lake.clone(root), there, len(lake.transfers.expected)

    files = len(lake.files(prefix="data/"))
    halves = []
    for dies_at in count(start=1):
        summary, there, expected = told_after(dies_at, tmp_path / str(dies_at))
        assert (summary.fetched, summary.up_to_date) == (files - there, there)
        assert expected == files - there
        halves.append(there)
        if there == files:
            break
    assert set(halves) == set(range(files + 1))


def test_an_interrupted_commit_is_reported_before_and_after(lake: Lake, tmp_path: Path) -> None:
    root = tmp_path / "copy"
    lake.clone(root)
    found = set()
    for dies_at in count(start=1):
        for name in ("one", "two", "three"):
            write(root, name, f"{name} {dies_at}")
        (root / "mine").unlink(missing_ok=True)
        alive = survives(lake, dies_at, lambda: lake.commit_copy(root))
        if alive:
            break
        lake.transfers.expected.clear()
        done = lake.commit_copy(root)
        if done is not None:
            assert done.sent + done.removed + done.up_to_date in {3, 4}
            assert len(lake.transfers.expected) == done.sent
            found.add(done.up_to_date)
    assert {0, 1, 2, 3} <= found


def test_the_repeat_of_an_interrupted_pull_counts_its_files(lake: Lake, tmp_path: Path) -> None:
    root = tmp_path / "copy"
    lake.clone(root)
    kept = len(on_disk(root))
    lake.put("data/one", "1")
    lake.put("data/two", "2")
    lake.commit()
    steps = count(start=1)
    while len(on_disk(root)) < kept + 1:
        assert not survives(lake, next(steps), lambda: lake.pull(root))
    summary = lake.pull(root)
    assert (summary.fetched, summary.up_to_date) == (1, kept + 1)


def _prepare(lake: Lake, root: Path, number: int) -> tuple[dict[str, str], dict[str, str]]:
    """Let others and me change things; return what they committed, and what I wrote."""
    lake.delete(f"data/in/theirs{number}")
    lake.put(f"data/in/theirs{number + 1}", "0")
    lake.put(f"data/in/mine{number + 1}", "0")
    lake.commit()
    lake.put("staged", str(number))
    write(root, "mine", f"{number}!")
    write(root, "new", f"{number}!")
    (root / f"in/mine{number}").unlink()
    written = md5(f"{number}!".encode())
    return _listed(lake, "main@"), {"mine": written, "new": written}


def _listed(lake: Lake, ref: str) -> dict[str, str]:
    """What is on the branch: paths and hashes."""
    found = lake.listed(ref, "data/")
    return {item.path.removeprefix("data/"): item.checksum for item in found}


def _hashed(files: dict[str, bytes]) -> dict[str, str]:
    return {path: md5(content) for path, content in files.items()}


def _is_done(root: Path) -> bool:
    return (root / ".lakefs_ref.yaml").exists() and not read_state(root).active_operation


def _leftovers(root: Path) -> list[str]:
    return [path.name for path in root.iterdir() if path.name.startswith(".lakebed")]


def _log(lake: Lake, amount: int) -> list[Commit]:
    return lake.client.refs.log(lake.name, "main", LogCommitsQuery(amount=amount)).results
