"""The high-level Python client, `lakefs`, against real server processes."""

import pytest
from lakefs import Client, Repository
from lakefs.exceptions import (
    ConflictException,
    NotFoundException,
    ObjectExistsException,
    ObjectNotFoundException,
)

from lakebed.testing.servers.lakebed import LakebedServer


@pytest.fixture
def repository(lakebed: LakebedServer, repository_name: str) -> Repository:
    client = Client(
        host=lakebed.endpoint,
        username=lakebed.access_key_id,
        password=lakebed.secret_access_key,
    )
    made = Repository(repository_name, client=client)
    return made.create(storage_namespace=f"{lakebed.namespace}/{repository_name}")


def test_from_an_empty_repository_to_a_merged_branch(repository: Repository) -> None:
    main = repository.branch("main")
    dev = repository.branch("dev").create(source_reference="main")
    dev.object("tables/a.csv").upload(data="a,b\n1,2\n", content_type="text/csv")
    assert [change.path for change in dev.uncommitted()] == ["tables/a.csv"]
    commit = dev.commit(message="first", metadata={"by": "test"})
    assert commit.get_commit().metadata == {"by": "test"}
    assert [change.path for change in main.diff(dev)] == ["tables/a.csv"]
    merged = dev.merge_into(main)
    assert main.get_commit().id == merged
    assert main.object("tables/a.csv").reader(mode="r").read() == "a,b\n1,2\n"
    assert [entry.message for entry in main.log(max_amount=2)][1] == "first"


def test_reading_like_a_file(repository: Repository) -> None:
    data = bytes(range(256)) * 1000
    written = repository.branch("main").object("data.bin").upload(data=data, mode="wb")
    with written.reader(mode="rb") as file:
        assert file.read(10) == data[:10]
        file.seek(200_000)
        assert file.read(5) == data[200_000:200_005]
        assert file.tell() == 200_005
    assert written.stat().size_bytes == len(data)


def test_writing_like_a_file(repository: Repository) -> None:
    written = repository.branch("main").object("lines.txt")
    with written.writer(mode="w", content_type="text/plain", metadata={"k": "v"}) as file:
        file.write("one\n")
        file.write("two\n")
    assert list(written.reader(mode="r")) == ["one\n", "two\n"]
    assert written.stat().metadata == {"k": "v"}
    with pytest.raises(ObjectExistsException):
        written.upload(data=b"again", mode="xb")


def test_transactions(repository: Repository) -> None:
    main = repository.branch("main")
    with main.transact(commit_message="all at once") as transaction:
        transaction.object("a").upload(data=b"1")
        transaction.object("b").upload(data=b"2")
    assert {entry.path for entry in main.objects()} == {"a", "b"}

    def fail() -> None:
        with main.transact(commit_message="never") as transaction:
            transaction.object("c").upload(data=b"3")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not main.object("c").exists()


def test_tags_references_and_listings(repository: Repository) -> None:
    main = repository.branch("main")
    for name in ("x/1", "x/2", "y"):
        main.object(name).upload(data=name)
    main.commit(message="three")
    tag = repository.tag("v1").create("main")
    assert tag.get_commit().message == "three"
    assert [entry.path for entry in tag.objects(delimiter="/")] == ["x/", "y"]
    assert repository.ref("main~1").get_commit().message == "Repository created"
    main.delete_objects(["x/1", "x/2"])
    main.commit(message="fewer")
    assert [entry.path for entry in main.objects()] == ["y"]
    main.revert("main")
    assert len(list(main.objects())) == 3
    copied = main.object("y").copy("main", "z")
    assert copied.reader(mode="r").read() == "y"
    main.reset_changes()
    assert not main.object("z").exists()


def test_errors_are_the_ones_that_scripts_catch(repository: Repository) -> None:
    with pytest.raises(ObjectNotFoundException):
        repository.branch("main").object("none").reader().read()
    with pytest.raises(NotFoundException):
        repository.branch("none").get_commit()
    with pytest.raises(ConflictException):
        repository.branch("main").create("main")
    repository.branch("main").create("main", exist_ok=True)
    assert repository.branch("main").object("none").exists() is False
