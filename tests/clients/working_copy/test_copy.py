"""What working copies do, and do not do."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakebed.block import Address
from lakebed.clients.http.errors import Refused
from lakebed.clients.working_copy import copy
from lakebed.clients.working_copy.errors import (
    BadNames,
    Changed,
    Conflicts,
    Interrupted,
    InUse,
    NotAFile,
    NotAWorkingCopy,
    NotEmpty,
    Unfinished,
    WorkingCopyError,
)
from lakebed.clients.working_copy.folder import WorkingFolder
from lakebed.clients.working_copy.hashes import LocalFile
from lakebed.clients.working_copy.state import (
    STATE_FILE,
    RemotePath,
    find_below,
    find_root,
    read_state,
)
from lakebed.wire.calls import WireRequest
from lakebed.wire.objects import PathQuery
from lakebed.wire.refs import DiffRefsQuery, TagCreation
from lakebed.wire.repositories import BranchProtectionRule
from lakebed.wire.staging import AddressQuery, StagingMetadata
from tests.clients.working_copy.kit import Inside, Lake, edit_unseen, inside, md5, on_disk, write

__all__ = ["inside"]


@pytest.fixture
def lake(inside: Inside, tmp_path: Path) -> Lake:
    made = Lake(inside, tmp_path)
    for path in ("data/a.csv", "data/b/c.csv", "data/b/d.csv", "else/x"):
        made.put(path, f"content of {path}")
    made.commit()
    return made


@pytest.fixture
def root(lake: Lake, tmp_path: Path) -> Path:
    lake.clone(tmp_path / "copy")
    return tmp_path / "copy"


# Cloning


def test_a_clone_has_all_files_and_the_file_of_lakectl(lake: Lake, root: Path) -> None:
    assert on_disk(root) == lake.files(prefix="data/")
    assert yaml.safe_load((root / STATE_FILE).read_text()) == {
        "src": f"lakefs://{lake.name}/main/data/",
        "at_head": lake.head(),
        "active_operation": "",
    }
    assert {path.name for path in root.iterdir()} == {STATE_FILE, "a.csv", "b"}
    assert lake.status(root) == []


def test_only_an_empty_folder_is_cloned_to(lake: Lake, root: Path, tmp_path: Path) -> None:
    with pytest.raises(NotEmpty):
        lake.clone(root)
    write(tmp_path / "used", "mine", "mine")
    with pytest.raises(NotEmpty, match="is not empty"):
        lake.clone(tmp_path / "used")
    assert on_disk(tmp_path / "used") == {"mine": b"mine"}


def test_files_get_the_times_that_lakectl_compares(lake: Lake, root: Path, tmp_path: Path) -> None:
    write(root, "new.csv", "new")
    os.utime(root / "new.csv", (1_600_000_000.5, 1_600_000_000.5))
    lake.commit_copy(root)
    stats = lake.stat("data/new.csv")
    assert (stats.metadata or {})["::lakefs::client-mtime"] == "1600000000"
    assert stats.content_type == "text/csv"
    lake.clone(tmp_path / "again")
    assert (tmp_path / "again/new.csv").stat().st_mtime_ns == 1_600_000_000 * 10**9
    assert int((root / "a.csv").stat().st_mtime) == lake.stat("data/a.csv").mtime


# What was changed


def test_both_sides_are_shown(lake: Lake, root: Path) -> None:
    write(root, "a.csv", "mine")
    write(root, "b/new", "mine")
    (root / "b/d.csv").unlink()
    lake.put("data/b/c.csv", "theirs")
    lake.put("data/b.csv", "theirs")
    lake.put("data/a.csv", "theirs")
    lake.commit()
    assert lake.status(root) == [
        ("local", "conflict", "a.csv"),
        ("remote", "added", "b.csv"),
        ("remote", "modified", "b/c.csv"),
        ("local", "removed", "b/d.csv"),
        ("local", "added", "b/new"),
    ]
    assert [change[1:] for change in lake.status(root, local_only=True)] == [
        ("modified", "a.csv"),
        ("removed", "b/d.csv"),
        ("added", "b/new"),
    ]


def test_an_edit_that_keeps_size_and_times_is_seen(lake: Lake, root: Path) -> None:
    os.utime(root / "a.csv", (1, 1))
    assert lake.status(root) == []  # and remembered
    edit_unseen(root / "a.csv", b"CONTENT of data/a.csv")
    assert lake.status(root) == [("local", "modified", "a.csv")]
    lake.commit_copy(root)
    assert lake.read("data/a.csv") == b"CONTENT of data/a.csv"


def test_an_edit_in_the_tick_of_the_first_look_is_seen(
    lake: Lake, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, "a.csv", "content of data/a.csv")
    young = (root / "a.csv").stat()
    assert lake.status(root) == []
    # A file system with coarse times shows the same for a file that was written to since.
    write(root, "a.csv", "CONTENT of data/a.csv")

    def coarse(path: str, found: os.stat_result) -> LocalFile:
        stamps = young if path == "a.csv" else found
        return LocalFile(
            path, stamps.st_size, stamps.st_mtime_ns, stamps.st_ctime_ns, stamps.st_ino
        )

    monkeypatch.setattr("lakebed.clients.working_copy.folder._local_file", coarse)
    assert lake.status(root) == [("local", "modified", "a.csv")]


def test_a_file_that_is_known_is_not_read_again(
    lake: Lake, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("a.csv", "b/c.csv", "b/d.csv"):
        os.utime(root / path, (1, 1))
    assert lake.status(root) == []
    read: list[str] = []
    real = WorkingFolder.open

    def counted(folder: WorkingFolder, path: str) -> object:
        read.append(path)
        return real(folder, path)

    monkeypatch.setattr(WorkingFolder, "open", counted)
    os.utime(root / "b/c.csv", (2, 2))
    assert lake.status(root) == []
    assert read == ["b/c.csv"]


def test_a_cache_that_is_damaged_is_made_anew(lake: Lake, root: Path, tmp_path: Path) -> None:
    (tmp_path / "copy.sqlite").write_bytes(b"no database" * 1000)
    assert lake.status(root) == []


def test_objects_without_an_md5_are_compared_by_their_bytes(
    lake: Lake, root: Path, tmp_path: Path
) -> None:
    staging = lake.client.staging
    given = staging.address(lake.name, "main", AddressQuery(path="data/parts"))
    assert given.physical_address
    address = Address.parse(given.physical_address)
    lake.services.foundation.block.put(address, [b"in two parts"])
    body = StagingMetadata(staging=given, checksum=f"{md5(b'parts')}-2", size_bytes=12)
    staging.link(lake.name, "main", PathQuery(path="data/parts"), body)
    lake.commit()
    lake.pull(root)
    assert lake.status(root) == []
    (tmp_path / "copy.sqlite").unlink()
    assert lake.status(root) == []
    edit_unseen(root / "parts", b"in TWO parts")
    assert lake.status(root) == [("local", "modified", "parts")]


# Pulling


def test_a_pull_brings_the_changes_of_others_and_keeps_mine(lake: Lake, root: Path) -> None:
    write(root, "a.csv", "mine")
    lake.put("data/b/c.csv", "theirs")
    lake.delete("data/b/d.csv")
    lake.put("data/new/deep/e.csv", "theirs")
    head = lake.commit()
    summary = lake.pull(root)
    assert (summary.fetched, summary.removed) == (2, 1)
    assert on_disk(root) == {
        "a.csv": b"mine",
        "b/c.csv": b"theirs",
        "new/deep/e.csv": b"theirs",
    }
    assert read_state(root).at_head == head
    assert lake.status(root) == [("local", "modified", "a.csv")]


def test_a_conflict_stops_a_pull_before_anything_is_changed(lake: Lake, root: Path) -> None:
    write(root, "b/c.csv", "mine")
    write(root, "b/d.csv", "mine")
    lake.put("data/a.csv", "theirs")
    lake.put("data/b/c.csv", "theirs")
    lake.delete("data/b/d.csv")
    lake.commit()
    before, state = on_disk(root), read_state(root)
    with pytest.raises(Conflicts, match=r"b/c\.csv, b/d\.csv") as error:
        lake.pull(root)
    assert error.value.paths == ["b/c.csv", "b/d.csv"]
    assert (on_disk(root), read_state(root)) == (before, state)
    lake.pull(root, force=True)
    assert on_disk(root) == lake.files(prefix="data/")


def test_a_file_that_is_out_of_the_way_is_brought_back_by_a_pull_only(
    lake: Lake, root: Path
) -> None:
    lake.put("data/a.csv", "theirs")
    lake.commit()
    (root / "a.csv").unlink()
    with pytest.raises(Conflicts):
        lake.commit_copy(root)
    lake.pull(root)
    assert on_disk(root)["a.csv"] == b"theirs"


def test_the_same_change_on_both_sides_is_no_conflict(lake: Lake, root: Path) -> None:
    write(root, "a.csv", "same")
    (root / "b/c.csv").unlink()
    lake.put("data/a.csv", "same")
    lake.delete("data/b/c.csv")
    lake.commit()
    assert lake.status(root) == []
    lake.pull(root)
    assert lake.commit_copy(root) is None


def test_a_file_that_becomes_a_folder_and_back(lake: Lake, root: Path) -> None:
    lake.delete("data/a.csv")
    lake.put("data/a.csv/in", "theirs")
    lake.delete("data/b/c.csv")
    lake.delete("data/b/d.csv")
    lake.put("data/b", "theirs")
    lake.commit()
    lake.pull(root)
    assert on_disk(root) == {"a.csv/in": b"theirs", "b": b"theirs"}


def test_a_file_that_changes_between_the_look_and_the_rename_is_kept(
    lake: Lake, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.put("data/a.csv", "theirs")
    lake.commit()
    real = lake.client.open

    def late(request: WireRequest[Any], **options: Any) -> object:
        if request.endpoint.transfer:
            write(root, "a.csv", "mine, just now")
        return real(request, **options)

    monkeypatch.setattr(lake.client, "open", late)
    with pytest.raises(Unfinished, match="was changed during the operation"):
        lake.pull(root)
    monkeypatch.undo()
    assert on_disk(root)["a.csv"] == b"mine, just now"
    with pytest.raises(Conflicts):
        lake.pull(root)


# Checking out


def test_a_checkout_throws_away_what_was_changed(lake: Lake, root: Path) -> None:
    first = lake.head()
    before = on_disk(root)
    lake.put("data/a.csv", "theirs")
    lake.commit()
    write(root, "a.csv", "mine")
    write(root, "b/mine/new", "mine")
    with lake.copy(root) as opened:
        opened.checkout()
    assert on_disk(root) == before
    with lake.copy(root) as opened:
        opened.checkout("main")
    assert on_disk(root) == lake.files(prefix="data/")
    with lake.copy(root) as opened:
        opened.checkout(first)
    assert on_disk(root) == before
    assert read_state(root) == read_state(root).__class__(lake.source, first)


# Committing


def test_a_commit_holds_the_changes_of_the_folder_and_nothing_else(lake: Lake, root: Path) -> None:
    lake.put("else/staged", "of somebody")
    lake.put("data/staged", "of somebody")
    write(root, "a.csv", "mine")
    write(root, "new", "mine")
    (root / "b/d.csv").unlink()
    before = lake.head()
    done = lake.commit_copy(root, "three changes")
    assert done is not None
    assert (done.sent, done.removed, done.not_pulled) == (2, 1, ())
    record = lake.client.commits.get(lake.name, done.commit_id)
    assert (record.message, record.parents) == ("three changes", [before])
    assert lake.head() == done.commit_id == read_state(root).at_head
    changed = lake.client.refs.diff(lake.name, before, "main", DiffRefsQuery(type="two_dot"))
    assert [(item.type, item.path) for item in changed.results] == [
        ("changed", "data/a.csv"),
        ("removed", "data/b/d.csv"),
        ("added", "data/new"),
    ]
    staged = lake.client.branches.diff(lake.name, "main").results
    assert [item.path for item in staged] == ["data/staged", "else/staged"]
    assert lake.branches() == ["main"]
    assert lake.status(root) == []
    assert lake.commit_copy(root) is None


def test_a_commit_brings_the_changes_of_others(lake: Lake, root: Path) -> None:
    write(root, "a.csv", "mine")
    lake.put("data/b/c.csv", "theirs")
    lake.delete("data/b/d.csv")
    lake.commit()
    lake.commit_copy(root)
    assert on_disk(root) == lake.files(prefix="data/") == {"a.csv": b"mine", "b/c.csv": b"theirs"}


def test_a_change_by_somebody_else_is_a_conflict_and_is_not_overwritten(
    lake: Lake, root: Path
) -> None:
    write(root, "a.csv", "mine")
    lake.put("data/a.csv", "theirs")
    head = lake.commit()
    with pytest.raises(Conflicts, match=r"a\.csv"):
        lake.commit_copy(root)
    assert (lake.head(), lake.read("data/a.csv")) == (head, b"theirs")
    assert on_disk(root)["a.csv"] == b"mine"
    assert lake.branches() == ["main"]


@pytest.mark.parametrize("how", ["committed", "staged"])
def test_a_change_while_files_are_uploaded_is_a_conflict_too(
    lake: Lake, root: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    write(root, "a.csv", "mine")
    real = lake.client.open

    def late(request: WireRequest[Any], **options: Any) -> object:
        if "merge" in request.segments:
            monkeypatch.undo()
            lake.put("data/a.csv", "theirs")
            if how == "committed":
                lake.commit()
        return real(request, **options)

    monkeypatch.setattr(lake.client, "open", late)
    with pytest.raises(Conflicts, match=r"a\.csv"):
        lake.commit_copy(root)
    assert lake.read("data/a.csv") == b"theirs"
    assert on_disk(root)["a.csv"] == b"mine"
    assert (lake.branches(), read_state(root).active_operation) == (["main"], "")


def test_uploads_replace_what_was_seen_and_nothing_else(
    lake: Lake, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, "a.csv", "mine")
    write(root, "new", "mine")
    real = lake.client.open

    def late(request: WireRequest[Any], **options: Any) -> object:
        if request.endpoint.uploads:
            monkeypatch.undo()
            for name in ("a.csv", "new"):
                lake.put(f"data/{name}", "theirs", request.segments[3])
        return real(request, **options)

    monkeypatch.setattr(lake.client, "open", late)
    with pytest.raises(Unfinished, match=r"(?s)a\.csv: .*new: .*2 file\(s\) failed"):
        lake.commit_copy(root)
    (branch,) = set(lake.branches()) - {"main"}
    assert lake.read("data/a.csv", branch) == lake.read("data/new", branch) == b"theirs"


def test_files_that_are_edited_during_a_commit_are_changed_since(
    lake: Lake, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, "a.csv", "mine")
    real = lake.client.open

    def late(request: WireRequest[Any], **options: Any) -> object:
        if "merge" in request.segments:
            write(root, "a.csv", "mine again")
            monkeypatch.undo()
            lake.put("data/b/c.csv", "theirs")
            lake.commit()
        return real(request, **options)

    monkeypatch.setattr(lake.client, "open", late)
    assert lake.commit_copy(root)
    assert lake.status(root) == [("local", "modified", "a.csv")]
    assert on_disk(root)["b/c.csv"] == b"theirs"
    lake.commit_copy(root)
    assert lake.read("data/a.csv") == b"mine again"


def test_only_branches_that_may_be_written_to_are_committed_to(lake: Lake, root: Path) -> None:
    write(root, "a.csv", "mine")
    lake.client.repositories.set_protection(lake.name, [BranchProtectionRule(pattern="main")])
    with pytest.raises(Refused, match="protected") as error:
        lake.commit_copy(root)
    assert error.value.status == 403
    lake.client.tags.create(lake.name, TagCreation(id="v1", ref="main"))
    lake.clone(root.parent / "tagged", RemotePath(lake.name, "v1", "data/"))
    with pytest.raises(WorkingCopyError, match="v1 is not a branch"):
        lake.commit_copy(root.parent / "tagged")
    assert lake.branches() == ["main"]


def test_a_repository_without_a_path_works(lake: Lake, tmp_path: Path) -> None:
    lake.clone(tmp_path / "whole", RemotePath(lake.name, "main", ""))
    write(tmp_path / "whole", "else/y", "mine")
    lake.commit_copy(tmp_path / "whole")
    assert on_disk(tmp_path / "whole") == lake.files()


# Names, links and other traps


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        (["../evil"], r"could lead out"),
        (["b/../../evil"], r"could lead out"),
        (["/etc/evil"], r"cannot be empty"),
        (["x//y"], r"cannot be empty"),
        (["x/"], r"cannot be empty"),
        (
            ["x", "x-y", "x/z"],
            r"'x/z': conflicts with 'x', which is a file and cannot also be a folder",
        ),
        ([STATE_FILE], r"this name is reserved for working copies"),
        ([".lakebed/operation.json"], r"this name is reserved for working copies"),
        (["x" * 256], r"longer than 255 bytes"),
    ],
)
def test_keys_that_cannot_be_files_are_named_before_anything_is_written(
    lake: Lake, root: Path, tmp_path: Path, keys: list[str], problem: str
) -> None:
    for key in keys:
        lake.put(f"data/{key}", "evil")
    lake.put("data/a.csv", "theirs")
    lake.commit()
    before = on_disk(root)
    with pytest.raises(BadNames, match=problem):
        lake.pull(root)
    with pytest.raises(BadNames, match=problem):
        lake.clone(tmp_path / "copy2")
    assert on_disk(root) == before
    assert on_disk(tmp_path / "copy2") == {}
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"copy", "copy2"}


def test_names_that_are_the_same_on_this_disk_are_refused(
    lake: Lake, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WorkingFolder, "ignores_case", lambda _: True)
    lake.put("data/B/e.csv", "theirs")
    lake.commit()
    with pytest.raises(BadNames, match="ignores case"):
        lake.pull(root)
    assert not (root / "B").exists()


def test_marks_of_folders_are_not_files(lake: Lake, root: Path) -> None:
    lake.put("data/", "")
    lake.put("data/b/", "")
    lake.put("data/b/.DS_Store", "theirs")
    lake.commit()
    write(root, ".DS_Store", "mine")
    lake.pull(root)
    assert lake.status(root) == []
    assert not (root / "b/.DS_Store").exists()


def test_links_are_neither_followed_nor_uploaded(lake: Lake, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    write(outside, "secret", "mine alone")
    (root / "link").symlink_to(outside / "secret")
    with pytest.raises(NotAFile, match="link is a symbolic link"):
        lake.commit_copy(root)
    (root / "link").unlink()
    for path in ("c.csv", "d.csv"):
        (root / "b" / path).unlink()
    (root / "b").rmdir()
    (root / "b").symlink_to(outside)
    lake.put("data/b/c.csv", "theirs")
    lake.commit()
    with pytest.raises(NotAFile, match="b is a symbolic link"):
        lake.pull(root, force=True)
    folder = WorkingFolder(root)
    with pytest.raises(NotAFile):
        folder.put("b/evil", lambda file: None, seen=None, mtime=1)
    folder.close()
    assert on_disk(outside) == {"secret": b"mine alone"}


def test_a_link_in_the_place_of_our_own_folder_is_not_followed(
    lake: Lake, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (root / ".lakebed").symlink_to(tmp_path / "outside")
    lake.put("data/a.csv", "theirs")
    lake.commit()
    with pytest.raises(NotAFile):
        lake.pull(root)
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_folder_with_files_of_mine_in_the_place_of_a_file(lake: Lake, root: Path) -> None:
    write(root, "new/mine", "mine")
    lake.put("data/new", "theirs")
    lake.commit()
    with pytest.raises(BadNames, match="'new/mine': conflicts with 'new', which is a file"):
        lake.pull(root)
    assert on_disk(root)["new/mine"] == b"mine"


def test_a_name_that_is_not_text_is_refused(lake: Lake, root: Path) -> None:
    (root / os.fsdecode(b"b\xff")).write_bytes(b"mine")
    with pytest.raises(NotAFile, match="is not UTF-8"):
        lake.commit_copy(root)


# The file of the working copy


def test_a_folder_that_is_there_becomes_a_working_copy(lake: Lake, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    write(mine, "new", "mine")
    write(mine, "a.csv", "content of data/a.csv")
    copy.link_directory(mine, lake.source, lake.tools)
    assert on_disk(mine) == {"new": b"mine", "a.csv": b"content of data/a.csv"}
    assert ("local", "added", "new") in lake.status(mine)
    with pytest.raises(NotEmpty, match="already a working copy"):
        copy.link_directory(mine, lake.source, lake.tools)
    copy.link_directory(mine, RemotePath(lake.name, "main", "else/"), lake.tools, force=True)
    assert read_state(mine).source.prefix == "else/"


def test_working_copies_are_found_upwards_and_downwards(root: Path, tmp_path: Path) -> None:
    assert find_root(root / "b") == root
    assert list(find_below(tmp_path)) == [root]
    with pytest.raises(NotAWorkingCopy, match="is not in a working copy"):
        find_root(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"\xff",
        b"- a list",
        b"src: [",
        b"src: lakefs://r/main/\n",
        b"src: s3://r\nat_head: x\n",
        b"",
    ],
)
def test_a_file_that_is_no_place_is_named(lake: Lake, root: Path, content: bytes) -> None:
    (root / STATE_FILE).write_bytes(content)
    with pytest.raises(NotAWorkingCopy):
        lake.status(root)


def test_two_processes_do_not_work_on_one_folder(lake: Lake, root: Path) -> None:
    with lake.copy(root), pytest.raises(InUse):
        lake.pull(root)
    lake.pull(root)


# Together with lakectl


def test_the_files_of_lakectl_are_read(lake: Lake, root: Path, tmp_path: Path) -> None:
    """It writes the same file, sets the same times, and knows nothing of our cache."""
    (tmp_path / "copy.sqlite").unlink()
    state = read_state(root)
    (root / STATE_FILE).write_text(f"src: {state.source}\nat_head: {state.at_head}\n")
    lake.put("data/a.csv", "lakectl's", X_Lakefs_Internal_Client_Mtime="1600000001")
    head = lake.commit()
    (root / STATE_FILE).write_text(
        f'src: {state.source}\nat_head: {head}\nactive_operation: ""\nof_another: tool\n'
    )
    write(root, "a.csv", "lakectl's")
    os.utime(root / "a.csv", (1_600_000_001, 1_600_000_001))
    assert lake.status(root) == []
    write(root, "new", "mine")
    lake.commit_copy(root)
    assert yaml.safe_load((root / STATE_FILE).read_text()) == {
        "src": str(state.source),
        "at_head": lake.head(),
        "active_operation": "",
        "of_another": "tool",
    }


@pytest.mark.parametrize("operation", ["pull", "checkout", "clone"])
def test_an_unfinished_operation_of_lakectl_needs_a_checkout(
    lake: Lake, root: Path, operation: str
) -> None:
    """It names the new commit before it has brought the files: those that are old look edited."""
    lake.put("data/a.csv", "theirs")
    head = lake.commit()
    state = read_state(root)
    (root / STATE_FILE).write_text(
        f"src: {state.source}\nat_head: {head}\nactive_operation: {operation}\n"
    )
    for refused in (lake.pull, lake.commit_copy):
        with pytest.raises(Interrupted, match="run `lakebed local checkout`"):
            refused(root)
    assert lake.head() == head
    with lake.copy(root) as opened:
        opened.checkout()
    assert on_disk(root) == lake.files(prefix="data/")
    assert read_state(root).active_operation == ""
    lake.pull(root)


def test_a_file_that_grows_while_it_is_read_is_not_taken_for_whole(
    lake: Lake, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, "a.csv", "content of data/A.csv")
    real = WorkingFolder.open

    def growing(folder: WorkingFolder, path: str) -> object:
        opened = real(folder, path)
        with (root / path).open("ab") as file:
            file.write(b"more")
        return opened

    monkeypatch.setattr(WorkingFolder, "open", growing)
    with pytest.raises(Changed, match=r"a\.csv was changed during the operation"):
        lake.commit_copy(root)
