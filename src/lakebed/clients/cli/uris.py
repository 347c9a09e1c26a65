"""Names of repositories, refs and objects, as `lakefs://<repository>/<ref>/<path>`.

A path is taken as it is: nothing in it is decoded, and `//` or a leading `/` is part of the
key. So every key can be written, and what `fs ls` prints can be pasted. With a base URI, a name
without `lakefs://` is what follows the base; one `/` between the two does not count.
"""

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated

import typer

from lakebed.clients.cli.errors import Misuse

_SCHEMES = ("lakefs://", "lakebed://")

_REPOSITORY_EXAMPLE = "lakefs://my-repo"
_REF_EXAMPLE = "lakefs://my-repo/main"
_PATH_EXAMPLE = "lakefs://my-repo/main/folder/file.csv"

_base_uri: ContextVar[str | None] = ContextVar("base_uri", default=None)


def set_base_uri(uri: str | None) -> str | None:
    """Let names without a scheme begin with this one; None changes nothing.

    Raises:
        Misuse: It is not the URI of a repository, a ref or a folder.
    """
    if uri is not None:
        if not uri.startswith(_SCHEMES):
            raise _mistake(uri, "a base URI", _REF_EXAMPLE)
        _base_uri.set(uri)
    return uri


def forget_base_uri() -> None:
    """Let names stand for themselves again."""
    _base_uri.set(None)


@dataclass(frozen=True, slots=True)
class RepositoryUri:
    """A repository."""

    repository: str

    def __str__(self) -> str:
        return f"lakefs://{self.repository}"


@dataclass(frozen=True, slots=True)
class RefUri:
    """A branch, a tag, a commit or an expression such as `main~2`, in a repository."""

    repository: str
    ref: str

    def __str__(self) -> str:
        return f"lakefs://{self.repository}/{self.ref}"


@dataclass(frozen=True, slots=True)
class PathUri:
    """An object or a prefix of objects at a ref; the empty path is all of them."""

    repository: str
    ref: str
    path: str

    def __str__(self) -> str:
        return f"lakefs://{self.repository}/{self.ref}/{self.path}"

    @property
    def prefix(self) -> str:
        """The path as a folder: empty, or with a `/` at its end, so that `dev` is not `dev-2`."""
        return self.path if not self.path or self.path.endswith("/") else f"{self.path}/"

    @property
    def name(self) -> str:
        """What follows the last `/`."""
        return self.path.rpartition("/")[2]


def is_uri(text: str) -> bool:
    """Whether a text begins as the URI of a repository, or of something in one, does."""
    return text.startswith(_SCHEMES)


def parse_repository(text: str) -> RepositoryUri:
    """Read `lakefs://<repository>`.

    Raises:
        Misuse: The text is not such a URI.
    """
    parts = _parts(text, "the URI of a repository", _REPOSITORY_EXAMPLE)
    if len(parts) > 1 and parts[1:] != [""]:
        raise _mistake(text, "the URI of a repository", _REPOSITORY_EXAMPLE)
    return RepositoryUri(parts[0])


def parse_ref(text: str) -> RefUri:
    """Read `lakefs://<repository>/<ref>`.

    Raises:
        Misuse: The text is not such a URI.
    """
    parts = _parts(text, "the URI of a branch, tag or commit", _REF_EXAMPLE)
    if len(parts) == 1 or not parts[1] or parts[2:] not in ([], [""]):
        raise _mistake(text, "the URI of a branch, tag or commit", _REF_EXAMPLE)
    return RefUri(parts[0], parts[1])


def parse_place(text: str) -> PathUri:
    """Read `lakefs://<repository>/<ref>/<path>`, or a repository, whose ref is empty then.

    Raises:
        Misuse: The text is neither.
    """
    parts = _parts(text, "the URI of a repository, object or prefix", _PATH_EXAMPLE)
    if parts[1:] in ([], [""]):
        return PathUri(parts[0], "", "")
    return parse_path(text)


def parse_path(text: str) -> PathUri:
    """Read `lakefs://<repository>/<ref>/<path>`, where the path may be empty.

    Raises:
        Misuse: The text is not such a URI.
    """
    parts = _parts(text, "the URI of an object or prefix", _PATH_EXAMPLE)
    if len(parts) == 1 or not parts[1]:
        raise _mistake(text, "the URI of an object or prefix", _PATH_EXAMPLE)
    return PathUri(parts[0], parts[1], "".join(parts[2:]))


def parse_object(text: str) -> PathUri:
    """Read `lakefs://<repository>/<ref>/<path>`, where the path names an object.

    Raises:
        Misuse: The text is not such a URI.
    """
    uri = parse_path(text)
    if not uri.path:
        raise _mistake(text, "the URI of an object", _PATH_EXAMPLE)
    return uri


def same_repository(one: RefUri, other: RefUri) -> str:
    """Return the repository that both are in.

    Raises:
        Misuse: They are in different repositories.
    """
    if one.repository != other.repository:
        raise Misuse(f"{one} and {other} are in different repositories, expected the same one")
    return one.repository


def _parts(text: str, expected: str, example: str) -> list[str]:
    """Return the repository, and the ref and the path if they were given."""
    base = _base_uri.get()
    if base is not None and not text.startswith(_SCHEMES):
        text = f"{base.removesuffix('/')}/{text.removeprefix('/')}"
    scheme = next((scheme for scheme in _SCHEMES if text.startswith(scheme)), None)
    if scheme is None or not _is_text(text):
        raise _mistake(text, expected, example)
    parts = text.removeprefix(scheme).split("/", 2)
    if not parts[0] or "." in (parts[0], *parts[1:2]) or ".." in (parts[0], *parts[1:2]):
        raise _mistake(text, expected, example)
    return parts


def _is_text(text: str) -> bool:
    """Whether a server can be sent this: bytes that are not UTF-8 arrive as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _mistake(text: str, expected: str, example: str) -> Misuse:
    return Misuse(f"{text!r} is not {expected}, expected for example {example}")


RepositoryArgument = Annotated[
    RepositoryUri,
    typer.Argument(parser=parse_repository, metavar="REPOSITORY", help=_REPOSITORY_EXAMPLE),
]
BranchArgument = Annotated[
    RefUri, typer.Argument(parser=parse_ref, metavar="BRANCH", help=_REF_EXAMPLE)
]
RefArgument = Annotated[RefUri, typer.Argument(parser=parse_ref, metavar="REF", help=_REF_EXAMPLE)]
TagArgument = Annotated[
    RefUri, typer.Argument(parser=parse_ref, metavar="TAG", help="lakefs://my-repo/v1")
]
PathArgument = Annotated[
    PathUri, typer.Argument(parser=parse_path, metavar="PATH", help=_PATH_EXAMPLE)
]
ObjectArgument = Annotated[
    PathUri, typer.Argument(parser=parse_object, metavar="OBJECT", help=_PATH_EXAMPLE)
]
PlaceArgument = Annotated[
    PathUri, typer.Argument(parser=parse_place, metavar="PATH", help=_PATH_EXAMPLE)
]
