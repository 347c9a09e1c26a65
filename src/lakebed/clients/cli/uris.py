"""URIs of repositories, refs and objects: `lakefs://<repository>/<ref>/<path>`.

A path is not decoded, and `//` or a leading `/` belongs to the key. So every key has a URI, and
output of `fs ls` can be pasted. With a base URI, a URI without scheme is appended to the base; one
`/` between both is ignored. Other texts raise `InvalidArguments`.
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from lakebed.clients.cli.errors import InvalidArguments

_SCHEMES = ("lakefs://", "lakebed://")

_REPOSITORY_EXAMPLE = "lakefs://my-repo"
_REF_EXAMPLE = "lakefs://my-repo/main"
_PATH_EXAMPLE = "lakefs://my-repo/main/folder/file.csv"

_base_uri: ContextVar[str | None] = ContextVar("base_uri", default=None)


def set_base_uri(uri: str | None) -> str | None:
    """Set the prefix of URIs without a scheme; None changes nothing."""
    if uri is not None:
        if not uri.startswith(_SCHEMES):
            raise _invalid_argument(uri, "a base URI", _REF_EXAMPLE)
        _base_uri.set(uri)
    return uri


def forget_base_uri() -> None:
    """Remove the base URI."""
    _base_uri.set(None)


@dataclass(frozen=True, slots=True)
class RepositoryUri:
    """URI of a repository."""

    repository: str

    def __str__(self) -> str:
        return f"lakefs://{self.repository}"


@dataclass(frozen=True, slots=True)
class RefUri:
    """URI of a ref: a branch, a tag, a commit or an expression such as `main~2`."""

    repository: str
    ref: str

    def __str__(self) -> str:
        return f"lakefs://{self.repository}/{self.ref}"


@dataclass(frozen=True, slots=True)
class PathUri:
    """URI of an object or a prefix at a ref; the empty path means all objects."""

    repository: str
    ref: str
    path: str

    def __str__(self) -> str:
        return f"lakefs://{self.repository}/{self.ref}/{self.path}"

    @property
    def prefix(self) -> str:
        """The path as a prefix: empty, or ending with `/`, so that `dev` does not match `dev-2`."""
        return self.path if not self.path or self.path.endswith("/") else f"{self.path}/"

    @property
    def name(self) -> str:
        """The part after the last `/`."""
        return self.path.rpartition("/")[2]


def is_uri(text: str) -> bool:
    """Whether a text starts with the scheme of a URI."""
    return text.startswith(_SCHEMES)


def parse_repository(text: str) -> RepositoryUri:
    """Parse `lakefs://<repository>`."""
    parts = _parts(text, "the URI of a repository", _REPOSITORY_EXAMPLE)
    if len(parts) > 1 and parts[1:] != [""]:
        raise _invalid_argument(text, "the URI of a repository", _REPOSITORY_EXAMPLE)
    return RepositoryUri(parts[0])


def parse_ref(text: str) -> RefUri:
    """Parse `lakefs://<repository>/<ref>`."""
    parts = _parts(text, "the URI of a branch, tag or commit", _REF_EXAMPLE)
    if len(parts) == 1 or not parts[1] or parts[2:] not in ([], [""]):
        expected = "the URI of a branch, tag or commit"
        if parts[2:]:
            expected += ", whose names have no /"
        raise _invalid_argument(text, expected, _REF_EXAMPLE)
    return RefUri(parts[0], parts[1])


def parse_location(text: str) -> PathUri:
    """Parse `lakefs://<repository>/<ref>/<path>`, or a repository, with an empty ref."""
    parts = _parts(text, "the URI of a repository, object or prefix", _PATH_EXAMPLE)
    if parts[1:] in ([], [""]):
        return PathUri(parts[0], "", "")
    return parse_path(text)


def parse_path(text: str) -> PathUri:
    """Parse `lakefs://<repository>/<ref>/<path>`; the path may be empty."""
    parts = _parts(text, "the URI of an object or prefix", _PATH_EXAMPLE)
    if len(parts) == 1 or not parts[1]:
        raise _invalid_argument(text, "the URI of an object or prefix", _PATH_EXAMPLE)
    return PathUri(parts[0], parts[1], "".join(parts[2:]))


def parse_object(text: str) -> PathUri:
    """Parse `lakefs://<repository>/<ref>/<path>` with the path of an object."""
    uri = parse_path(text)
    if not uri.path:
        raise _invalid_argument(text, "the URI of an object", _PATH_EXAMPLE)
    return uri


def same_repository(one: RefUri, other: RefUri) -> str:
    """Return the common repository, or raise `InvalidArguments`."""
    if one.repository != other.repository:
        raise InvalidArguments(
            f"{one} and {other} are in different repositories: expected the same one"
        )
    return one.repository


def _parts(text: str, expected: str, example: str) -> list[str]:
    """Split into the repository and, if given, the ref and the path."""
    base = _base_uri.get()
    if base is not None and not text.startswith(_SCHEMES):
        text = f"{base.removesuffix('/')}/{text.removeprefix('/')}"
    scheme = next((scheme for scheme in _SCHEMES if text.startswith(scheme)), None)
    if scheme is None or not _is_text(text):
        raise _invalid_argument(text, expected, example)
    parts = text.removeprefix(scheme).split("/", 2)
    if not parts[0] or "." in (parts[0], *parts[1:2]) or ".." in (parts[0], *parts[1:2]):
        raise _invalid_argument(text, expected, example)
    return parts


def _is_text(text: str) -> bool:
    """Whether a text can be sent: bytes that are not UTF-8 arrive as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _invalid_argument(text: str, expected: str, example: str) -> InvalidArguments:
    return InvalidArguments(f"{text!r} is not {expected}: expected for example {example}")


def _completion(depth: int) -> Callable[[typer.Context, str], list[str]]:
    def complete(context: typer.Context, incomplete: str) -> list[str]:
        from lakebed.clients.cli.completing import uris  # for shells only

        start = _SCHEMES[0] if _SCHEMES[0].startswith(incomplete) else incomplete
        return uris(context, start, depth) if is_uri(start) else []

    return complete


REPOSITORY: Any = {"parser": parse_repository, "autocompletion": _completion(0)}
REF: Any = {"parser": parse_ref, "autocompletion": _completion(1)}
PATH: Any = {"parser": parse_path, "autocompletion": _completion(2)}
"""How a parameter of a command parses a URI, and how a shell completes it."""

RepositoryArgument = Annotated[
    RepositoryUri,
    typer.Argument(**REPOSITORY, metavar="REPOSITORY", help=_REPOSITORY_EXAMPLE),
]
BranchArgument = Annotated[RefUri, typer.Argument(**REF, metavar="BRANCH", help=_REF_EXAMPLE)]
RefArgument = Annotated[RefUri, typer.Argument(**REF, metavar="REF", help=_REF_EXAMPLE)]
TagArgument = Annotated[RefUri, typer.Argument(**REF, metavar="TAG", help="lakefs://my-repo/v1")]
PathArgument = Annotated[PathUri, typer.Argument(**PATH, metavar="PATH", help=_PATH_EXAMPLE)]
ObjectArgument = Annotated[
    PathUri, typer.Argument(**PATH | {"parser": parse_object}, metavar="OBJECT", help=_PATH_EXAMPLE)
]
LocationArgument = Annotated[
    PathUri, typer.Argument(**PATH | {"parser": parse_location}, metavar="PATH", help=_PATH_EXAMPLE)
]
