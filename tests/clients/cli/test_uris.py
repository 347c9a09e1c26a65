from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakebed.clients.cli.errors import InvalidArguments
from lakebed.clients.cli.uris import (
    PathUri,
    RefUri,
    RepositoryUri,
    parse_object,
    parse_path,
    parse_ref,
    parse_repository,
    same_repository,
)

NAMES = st.from_regex(r"[a-z0-9][a-z0-9-]{2,20}", fullmatch=True)
REFS = st.from_regex(r"\w[-\w]{0,10}([~^@$][0-9]{0,2}){0,2}", fullmatch=True)
PATHS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(NAMES, REFS, PATHS)
@example("repo", "main", "")
@example("repo", "main", "/leading")
@example("repo", "main", "a//b/")
@example("repo", "main", "50% + #1?.csv")
def test_a_path_is_taken_as_it_stands(repository: str, ref: str, path: str) -> None:
    uri = PathUri(repository, ref, path)
    assert parse_path(str(uri)) == uri
    assert parse_path(f"lakebed://{repository}/{ref}/{path}") == uri


@given(NAMES, REFS)
def test_refs_and_repositories_are_read_back(repository: str, ref: str) -> None:
    assert parse_ref(str(RefUri(repository, ref))) == RefUri(repository, ref)
    assert parse_ref(f"{RefUri(repository, ref)}/") == RefUri(repository, ref)
    assert parse_repository(str(RepositoryUri(repository))) == RepositoryUri(repository)
    assert parse_repository(f"lakefs://{repository}/") == RepositoryUri(repository)


def test_a_ref_without_a_path_is_all_of_it() -> None:
    assert parse_path("lakefs://repo/main") == PathUri("repo", "main", "")


@pytest.mark.parametrize(
    ("parse", "text", "example_shown"),
    [
        (parse_repository, "repo", "lakefs://my-repo"),
        (parse_repository, "s3://repo", "lakefs://my-repo"),
        (parse_repository, "lakefs://", "lakefs://my-repo"),
        (parse_repository, "lakefs:///main", "lakefs://my-repo"),
        (parse_repository, "lakefs://..", "lakefs://my-repo"),
        (parse_repository, "lakefs://repo/main", "lakefs://my-repo"),
        (parse_repository, "lakefs://repo//", "lakefs://my-repo"),
        (parse_ref, "main", "lakefs://my-repo/main"),
        (parse_ref, "lakefs://repo", "lakefs://my-repo/main"),
        (parse_ref, "lakefs://repo/", "lakefs://my-repo/main"),
        (parse_ref, "lakefs://repo/..", "lakefs://my-repo/main"),
        (parse_ref, "lakefs://repo/main/a.csv", "lakefs://my-repo/main"),
        (parse_path, "lakefs://repo", "lakefs://my-repo/main/folder/file.csv"),
        (parse_path, "lakefs://repo//a", "lakefs://my-repo/main/folder/file.csv"),
        (parse_path, "lakefs://repo/main/\udcff", "lakefs://my-repo/main/folder/file.csv"),
        (parse_path, "lakefs://repo/main/a\0b", "lakefs://my-repo/main/folder/file.csv"),
        (parse_object, "lakefs://repo/main", "lakefs://my-repo/main/folder/file.csv"),
        (parse_object, "lakefs://repo/main/", "lakefs://my-repo/main/folder/file.csv"),
    ],
)
def test_a_mistake_says_what_was_expected(
    parse: Callable[[str], object], text: str, example_shown: str
) -> None:
    with pytest.raises(InvalidArguments) as caught:
        parse(text)
    message = str(caught.value)
    assert repr(text) in message
    assert message.endswith(f"expected for example {example_shown}")
    assert "\n" not in message


def test_two_refs_of_different_repositories_are_refused() -> None:
    assert same_repository(RefUri("one", "main"), RefUri("one", "dev")) == "one"
    with pytest.raises(InvalidArguments, match="different repositories"):
        same_repository(RefUri("one", "main"), RefUri("two", "main"))


@pytest.mark.parametrize(
    ("path", "prefix"), [("", ""), ("dev", "dev/"), ("dev/", "dev/"), ("dev//", "dev//")]
)
def test_a_folder_is_no_sibling(path: str, prefix: str) -> None:
    assert PathUri("repo", "main", path).prefix == prefix
