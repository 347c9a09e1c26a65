import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakebed.clients.cli.commands.fs.names import file_for, files_below, make_parent
from lakebed.clients.cli.errors import UnsafeKey

FOLDER = Path("/target/folder")
KEYS = st.lists(
    st.sampled_from(["", ".", "..", "a", "b", "...", " ", "%2e%2e", "\\", "~", "-", "\0", "ä"]),
    max_size=5,
).map("/".join) | st.text(max_size=20)


@given(KEYS)
@example("../../etc/passwd")
@example("/etc/passwd")
@example("a/../../b")
def test_no_key_leads_out_of_the_folder(key: str) -> None:
    try:
        file = file_for(key, prefix="", folder=FOLDER)
    except UnsafeKey:
        return
    normal = os.path.normpath(file)
    assert normal == str(file)
    assert normal.startswith(f"{FOLDER}/")


@given(st.lists(KEYS, unique=True))
def test_no_two_keys_become_one_file(keys: list[str]) -> None:
    files = []
    for key in keys:
        try:
            files.append(file_for(key, prefix="", folder=FOLDER))
        except UnsafeKey:
            continue
    assert len(set(files)) == len(files)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("p/../x", "lead out"),
        ("p/./x", "lead out"),
        ("p/a//b", "cannot be empty"),
        ("p/a/", "cannot be empty"),
        ("p/", "cannot be empty"),
        ("p/a\0b", "NUL"),
    ],
)
def test_keys_invalid_as_files_are_refused_by_name(key: str, reason: str) -> None:
    with pytest.raises(UnsafeKey, match=reason) as caught:
        file_for(key, prefix="p/", folder=FOLDER)
    assert repr(key) in str(caught.value)


def test_odd_keys_are_good_files() -> None:
    for name in ("a b", "ä/ö", "50%", "a+b", "...", "..a", "a..", "-r", "~", "%2e%2e/x"):
        assert file_for(f"p/{name}", prefix="p/", folder=FOLDER) == FOLDER / name


def test_a_link_that_leads_out_is_not_followed(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (folder / "link").symlink_to(outside)
    with pytest.raises(UnsafeKey, match="leads out"):
        make_parent(folder / "link" / "file", folder=folder, key="link/file")
    make_parent(folder / "a" / "b" / "file", folder=folder, key="a/b/file")
    assert (folder / "a" / "b").is_dir()


def test_files_are_found_in_order_and_none_is_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    for name in ("b/2", "b/1", "a", "ü ñ/%+", "c/d/e"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "file-link").symlink_to(folder / "a")
    (folder / "folder-link").symlink_to(folder / "c")
    (folder / "nowhere").symlink_to(folder / "missing")
    os.mkfifo(folder / "pipe")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff")).write_text("not UTF-8")

    found = list(files_below(folder))

    assert [file.name for file in found if file.problem is None] == [
        "a",
        "file-link",
        "b/1",
        "b/2",
        "c/d/e",
        "ü ñ/%+",
    ]
    assert {file.name: file.problem for file in found if file.problem is not None} == {
        "folder-link": "links to folders are not followed",
        "nowhere": "No such file or directory",
        "pipe": "it is not a regular file",
        "\udcff": "its name is not UTF-8",
    }


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(files_below(tmp_path / "missing"))
