"""The library does the same on a folder and on a server."""

import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

import lakebed
from lakebed.clients.library import embedded, objects, remote


def paths(found: object) -> list[str]:
    return [each.path for each in found]  # type: ignore[attr-defined]


def test_written_objects_are_read_listed_and_committed(main: lakebed.Branch) -> None:
    stored = main.object("tables/a.csv").upload("x,y\n", metadata={"made-by": "test"})
    assert (stored.size_bytes, stored.content_type) == (4, "text/csv")
    assert stored.metadata == {"made-by": "test"}
    assert abs(stored.mtime - datetime.now(UTC)) < timedelta(hours=1)
    main.object("b.bin").upload(io.BytesIO(b"\x00\x01"))
    changes = [(each.type, each.path, each.size_bytes) for each in main.uncommitted()]
    assert changes == [("added", "b.bin", 2), ("added", "tables/a.csv", 4)]

    commit = main.commit("First", metadata={"team": "data"})
    assert (commit.message, commit.metadata, len(commit.parents)) == ("First", {"team": "data"}, 1)
    assert list(main.uncommitted()) == []
    assert main.head.id == commit.id
    assert [each.message for each in main.log()] == ["First", "Repository created"]
    assert paths(main.objects()) == ["b.bin", "tables/a.csv"]
    assert list(main.objects(delimiter="/"))[1] == lakebed.CommonPrefix("tables/")
    assert paths(main.objects("tables/")) == ["tables/a.csv"]


def test_a_removed_object_has_its_size_once_the_removal_is_committed(main: lakebed.Branch) -> None:
    main.object("a").upload("12345")
    before = main.commit("Put").id
    main.object("a").delete()
    assert [(each.type, each.size_bytes) for each in main.uncommitted()] == [("removed", 0)]
    main.commit("Remove")
    left = lakebed.Reference(main._backend, main.repository, before)
    assert [(each.type, each.size_bytes) for each in left.diff(main)] == [("removed", 5)]


def test_lists_go_on_beyond_one_page(main: lakebed.Branch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_PAGE", 2)
    monkeypatch.setattr("lakebed.clients.http.paging.PAGE_SIZE", 2)
    for name in "abcde":
        main.object(name).upload(name)
    main.commit("All")
    for name in "abcd":
        main.commit(name, allow_empty=True)
    assert paths(main.objects()) == list("abcde")
    assert [each.message for each in main.log()] == [*"dcba", "All", "Repository created"]
    before = f"{main}~5"
    assert paths(lakebed.Reference(main._backend, main.repository, before).diff(main)) == list(
        "abcde"
    )


def test_branches_merge_and_conflicts_are_refused(repository: lakebed.Repository) -> None:
    main, work = repository.branch("main"), repository.branch("work").create("main")
    assert [each.id for each in repository.branches()] == ["main", "work"]
    work.object("a").upload("work")
    work.commit("On work")
    assert [(each.type, each.path) for each in main.diff(work)] == [("added", "a")]
    merged = work.merge_into(main, message="Take it", metadata={"ticket": "7"})
    assert (merged.message, merged.metadata["ticket"]) == ("Take it", "7")
    assert len(merged.parents) == 2

    for branch, text in ((main, "main"), (work, "other")):
        branch.object("a").upload(text)
        branch.commit(f"Change a to {text}")
    with pytest.raises(lakebed.MergeConflict, match="both sides changed 'a'") as refused:
        work.merge_into(main)
    assert (refused.value.kind, refused.value.paths) == ("merge_conflict", ("a",))
    taken = work.merge_into("main", strategy="source-wins")
    assert taken.message == "Merge 'work' into 'main'"
    assert taken.metadata == {".lakefs.merge.strategy": "source-wins"}
    assert main.object("a").reader("r").read() == "other"
    with pytest.raises(lakebed.Invalid, match="invalid strategy 'mine'"):
        work.merge_into("main", strategy="mine")  # type: ignore[arg-type]
    work.delete()
    assert [each.id for each in repository.branches()] == ["main"]


def test_history_is_reverted_picked_and_tagged(repository: lakebed.Repository) -> None:
    main = repository.branch("main")
    main.object("a").upload("1")
    first = main.commit("One")
    tag = repository.tag("v1").create(first)
    assert [each.id for each in repository.tags()] == ["v1"]
    assert tag.get_commit().id == first.id
    reverted = main.revert(first)
    assert reverted.message == f"Revert {first.id}"
    assert not main.object("a").exists()
    assert tag.object("a").exists()
    assert main.cherry_pick(tag).metadata["cherry-pick-origin"] == first.id
    assert repository.ref("main").object("a").reader().read() == b"1"
    tag.delete()
    with pytest.raises(lakebed.NotFound):
        tag.get_commit()


def test_changes_are_discarded_as_asked(main: lakebed.Branch) -> None:
    for path in ("a", "in/a", "in/b"):
        main.object(path).upload(path)
    main.reset_changes("object", "a")
    assert paths(main.uncommitted()) == ["in/a", "in/b"]
    main.delete_objects(["in/a", "not there"])
    assert paths(main.uncommitted()) == ["in/b"]
    main.reset_changes("common_prefix", "in/")
    assert paths(main.uncommitted()) == []


def test_a_file_is_read_from_anywhere(main: lakebed.Branch) -> None:
    main.object("a").upload(bytes(range(256)) * 8192)  # larger than the buffer
    with main.object("a").reader() as file:
        assert file.seek(-3, io.SEEK_END) == (2 << 20) - 3
        assert file.read() == b"\xfd\xfe\xff"
        assert file.read() == b""
        file.seek(1 << 20)
        assert file.read(2) == b"\x00\x01"
        file.seek(0)
        assert len(file.read()) == 2 << 20


def test_a_reader_never_mixes_two_objects(main: lakebed.Branch, lake: lakebed.Lake) -> None:
    main.object("a").upload(b"1" * (2 << 20))
    reader = main.object("a").reader()
    assert reader.read(1) == b"1"
    main.object("a").upload(b"2" * (2 << 20))
    reader.seek(-1, io.SEEK_END)
    if isinstance(lake._backend, remote.RemoteBackend):
        with pytest.raises(lakebed.LakeError, match="a was replaced while being read"):
            reader.read(1)
    else:
        assert reader.read(1) == b"1"


def test_a_writer_stores_on_close_and_only_then(main: lakebed.Branch) -> None:
    with main.object("a").writer() as file:
        file.write(b"half")
        assert not main.object("a").exists()
    assert main.object("a").reader().read() == b"half"
    for mode, data in (("wb", b"x"), ("w", "x")):
        writer = main.object("b").writer(mode)  # type: ignore[call-overload]
        with pytest.raises(ZeroDivisionError), writer:
            writer.write(data[: 1 // 0])
        writer = main.object("b").writer(mode)  # type: ignore[call-overload]
        writer.write(data)
        del writer  # the program forgot it
    assert not main.object("b").exists()


def test_a_writer_of_new_objects_replaces_none(main: lakebed.Branch) -> None:
    with main.object("a").writer("x") as file:
        file.write("first\n")
    writer = main.object("a").writer("xb")
    writer.write(b"second")
    with pytest.raises(FileExistsError, match="on 'a' does not hold: another object exists"):
        writer.close()
    assert main.object("a").reader("r").readlines() == ["first\n"]


def test_a_transaction_is_merged_whole_or_not_at_all(repository: lakebed.Repository) -> None:
    main = repository.branch("main")
    with main.transact("Two at once", metadata={"run": "1"}) as work:
        work.object("a").upload("a")
        work.object("b").upload("b")
        assert not main.object("a").exists()
    assert paths(main.objects()) == ["a", "b"]
    assert main.get_commit().message == "Two at once"
    with pytest.raises(lakebed.Invalid), main.transact("Never") as work:
        work.object("c").upload("c", metadata={"": ""})
    assert not main.object("c").exists()
    assert [each.id for each in repository.branches()] == ["main"]


def test_objects_are_copied(repository: lakebed.Repository) -> None:
    main = repository.branch("main")
    main.object("a").upload("text")
    other = repository.branch("other").create("main")
    assert main.object("a").copy("other", "copy").reader().read() == b"text"
    assert not main.object("copy").exists()
    assert paths(other.objects()) == ["copy"]


def test_mistakes_are_the_same_errors(repository: lakebed.Repository, lake: lakebed.Lake) -> None:
    main = repository.branch("main")
    nowhere = lake.repository("no-such-repository")

    def new(name: str, namespace: str) -> Callable[[], object]:
        return lambda: lake.repository(name).create(storage_namespace=namespace)

    mistakes: list[tuple[type[Exception], str, Callable[[], object]]] = [
        (lakebed.NotFound, "repository_not_found", nowhere.branch("main").object("a").exists),
        (lakebed.NotFound, "repository_not_found", lambda: nowhere.properties),
        (lakebed.NotFound, "repository_not_found", lambda: list(nowhere.branches())),
        (lakebed.NotFound, "entry_not_found", main.object("none").stat),
        (FileNotFoundError, "entry_not_found", main.object("none").reader),
        (lakebed.NotFound, "branch_not_found", lambda: repository.branch("b").head),
        (lakebed.NotFound, "ref_not_found", repository.ref("b").get_commit),
        (lakebed.NotFound, "ref_not_found", lambda: list(repository.ref("b").objects())),
        (lakebed.Conflict, "not_unique", lambda: repository.branch("main").create("main")),
        (lakebed.Conflict, "not_unique", new(repository.id, "local://lib/other")),
        (lakebed.Invalid, "no_changes", lambda: main.commit("Nothing")),
        (lakebed.Invalid, "invalid_name", new("B A D", "local://lib/bad")),
        (PermissionError, "default_branch", main.delete),
        (lakebed.Invalid, "lake_invalid", lambda: main.object("")),
        (ValueError, "lake_invalid", lambda: main.object("a").reader("w")),  # type: ignore[call-overload]
        (ValueError, "lake_invalid", lambda: main.object("a").upload("", metadata={"A": "b"})),
        (ValueError, "lake_invalid", lambda: main.object("a").upload("", metadata={"a": "\n"})),
    ]
    for error, kind, mistake in mistakes:
        with pytest.raises(error) as raised:
            mistake()
        assert isinstance(raised.value, lakebed.LakebedError)
        assert raised.value.kind == kind
        assert str(raised.value)


def test_exist_ok_keeps_existing_repositories_and_branches(repository: lakebed.Repository) -> None:
    namespace = repository.properties.storage_namespace
    repository.create(storage_namespace=namespace + "/other", exist_ok=True)
    assert repository.properties.storage_namespace == namespace
    head = repository.branch("main").head.id
    assert repository.branch("main").create("main", exist_ok=True).head.id == head


def test_data_in_the_storage_is_imported_without_a_copy(
    repository: lakebed.Repository, lake: lakebed.Lake, request: pytest.FixtureRequest
) -> None:
    root = (
        request.getfixturevalue("sqlite_lakebed").folder
        if isinstance(lake._backend, remote.RemoteBackend)
        else request.getfixturevalue("tmp_path") / "data"
    )
    outside = root / "objects" / f"outside-{repository.id}"
    outside.mkdir(parents=True)
    for name in "ab":
        (outside / name).write_text(name)
    main = repository.branch("main")
    made = main.import_data(
        "Bring it in",
        prefixes={f"local://{outside.name}/": "all/"},
        objects={f"local://{outside.name}/a": "one"},
        metadata={"from": "outside"},
    )
    assert (made.message, made.metadata["from"]) == ("Bring it in", "outside")
    assert paths(main.objects()) == ["all/a", "all/b", "one"]
    found = main.object("all/b")
    assert found.stat().physical_address == f"local://{outside.name}/b"
    assert found.reader("r").read() == "b"
    with pytest.raises(lakebed.Invalid, match="nothing"):
        main.import_data(prefixes={"local://nothing-there/": "all/"})


def test_garbage_is_collected(main: lakebed.Branch, repository: lakebed.Repository) -> None:
    main.object("kept").upload("kept")
    main.commit("Keep it")
    main.object("garbage").upload("garbage")
    main.reset_changes()
    young = repository.collect_garbage()
    assert (young.deleted, young.young) == (0, 1)
    done = repository.collect_garbage(assume_quiet=True, max_share=1)
    assert (done.deleted, done.committed, done.success) == (1, 1, True)
    assert main.object("kept").reader().read() == b"kept"


def test_names_of_the_package_are_those_of_the_library() -> None:
    for name in lakebed.__all__:
        assert getattr(lakebed, name) is not None
    assert lakebed.StoredObject is objects.StoredObject
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = lakebed.nothing
