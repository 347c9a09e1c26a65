"""Canonical addresses of objects, and the namespaces that contain them.

    local://name/path                                     below the configured root folder
    mem://name/path
    s3://bucket/path
    gs://bucket/path
    https://account.blob.core.windows.net/container/path
    scheme://name/path                                    of a driver in another package

The part before the path is the *store*: scheme, and bucket or account and container. It has a
single spelling: scheme and Azure host in lower case, no port. Bucket names are never changed: a
name with a capital letter is refused, because on storages that allow such names (S3 before 2018, a
disk), it is a different bucket than the name in lower case.

The path is the object's key, raw. Nothing in it is decoded, collapsed or resolved: ``%20``, ``?``,
``//`` and ``..`` are literal, and ``s3://b//x`` and ``s3://b/x`` are different objects.

Every `Address` and `Namespace` is canonical, so equal values mean equal places, and their ``str``
forms can be compared, stripped of prefixes and joined as well.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, Self

from lakebed.base.plugins import is_registered
from lakebed.block.errors import InvalidAddress

AZURE_SCHEME: Final = "https"
GROUP: Final = "lakebed.block"
"""Group of the entry points of drivers in other packages."""

# The first character is a letter or digit, so no store is named ".." or like a reserved folder.
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,254}")
_AZURE_HOST: Final = re.compile(r"[a-z0-9]{1,64}\.blob\.core(\.[a-z0-9-]{1,63})+")
_AZURE_CONTAINER: Final = re.compile(r"\$?[a-z0-9][a-z0-9-]{0,62}")
_NAMED_SCHEMES: Final = ("local", "mem", "s3", "gs")
_FORMS: Final = (
    "local://name/path, mem://name/path, s3://bucket/path, gs://bucket/path"
    " or https://account.blob.core.windows.net/container/path"
)


class StoreName(NamedTuple):
    """Parts of a store's name."""

    scheme: str
    """``local``, ``mem``, ``s3``, ``gs``, ``https``, or a registered scheme."""

    host: str
    """Host of an Azure account; for other schemes the same as `bucket`."""

    bucket: str
    """Bucket or container; for ``local`` and ``mem`` the name."""


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """Address of an object; addresses of a store sort by the UTF-8 bytes of their paths.

    Raises:
        InvalidAddress: The store is not canonical, or the path is empty, contains a NUL or has no
            UTF-8 form.
    """

    store: str
    """Everything before the slash that precedes the path: ``s3://bucket``."""

    path: str
    """Key of the object, raw."""

    def __post_init__(self) -> None:
        split_store(self.store)
        check_path(self.path)

    @classmethod
    def parse(cls, url: str) -> Self:
        """Return the address in a URL.

        Raises:
            InvalidAddress: The URL has none of the forms above.
        """
        return cls(*_split(url))

    @property
    def parts(self) -> StoreName:
        return split_store(self.store)

    def __str__(self) -> str:
        return f"{self.store}/{self.path}"


@dataclass(frozen=True, slots=True, order=True)
class Namespace:
    """A store, or the addresses of a store whose paths begin with a prefix.

    A prefix is empty or ends in a slash: ``dev`` is not a parent of ``dev-2``. An object whose path
    is the prefix itself (a "directory marker") is not in the namespace.

    Raises:
        InvalidAddress: The store is not canonical, or the prefix is not valid.
    """

    store: str
    """Everything before the slash that precedes the prefix: ``s3://bucket``."""

    prefix: str
    """Empty for the whole store, or a raw path that ends in a slash."""

    def __post_init__(self) -> None:
        split_store(self.store)
        if self.prefix != "":
            check_path(self.prefix)
            if not self.prefix.endswith("/"):
                raise InvalidAddress(f"the prefix {self.prefix!r} must end in a slash")

    @classmethod
    def parse(cls, url: str) -> Self:
        """Return the namespace in a URL, with or without a trailing slash.

        Raises:
            InvalidAddress: The URL has none of the forms above.
        """
        store, prefix = _split(url)
        return cls(store, prefix if prefix.endswith("/") or not prefix else prefix + "/")

    @property
    def parts(self) -> StoreName:
        return split_store(self.store)

    def address(self, relative: str) -> Address:
        """Return the address of a path relative to this namespace; inverse of `relative`.

        Raises:
            InvalidAddress: The path is empty, contains a NUL or has no UTF-8 form.
        """
        if not relative or not isinstance(relative, str):
            check_path(relative)  # the whole path is checked below
        return Address(self.store, self.prefix + relative)

    def relative(self, address: Address) -> str:
        """Return the path of an address relative to this namespace; inverse of `address`.

        Raises:
            InvalidAddress: The address is not in this namespace.
        """
        if address not in self:
            raise InvalidAddress(f"{address} is not in {self}")
        return address.path[len(self.prefix) :]

    def folder(self, relative: str) -> "Namespace":
        """Return the namespace of a folder in this namespace; `relative` may end in a slash.

        Raises:
            InvalidAddress: The path is empty, contains a NUL or has no UTF-8 form.
        """
        check_path(relative)
        slash = "" if relative.endswith("/") else "/"
        return Namespace(self.store, self.prefix + relative + slash)

    def overlaps(self, other: "Namespace") -> bool:
        """Return whether two namespaces are equal or one contains the other."""
        mine, others = str(self), str(other)
        return mine.startswith(others) or others.startswith(mine)

    def __contains__(self, address: Address) -> bool:
        return (
            address.store == self.store
            and address.path.startswith(self.prefix)
            and len(address.path) > len(self.prefix)
        )

    def __str__(self) -> str:
        return f"{self.store}/{self.prefix}"


@lru_cache(maxsize=1024)
def split_store(store: str) -> StoreName:
    """Return the parts of a store's canonical name.

    Raises:
        InvalidAddress: The name is not canonical.
    """
    scheme, _, rest = store.partition("://")
    is_named = scheme in _NAMED_SCHEMES or is_registered(GROUP, scheme)
    if is_named and _NAME.fullmatch(rest):
        return StoreName(scheme, rest, rest)
    host, _, container = rest.partition("/")
    if (
        scheme == AZURE_SCHEME
        and _AZURE_HOST.fullmatch(host)
        and _AZURE_CONTAINER.fullmatch(container)
    ):
        return StoreName(scheme, host, container)
    raise InvalidAddress(f"{store!r} is not the name of a store: use {_FORMS}, in lower case")


def check_path(path: str) -> None:
    """Raise `InvalidAddress` if a path is empty, contains a NUL or has no UTF-8 form."""
    if not isinstance(path, str):
        raise InvalidAddress(f"a path must be str, not {type(path).__name__}")
    if not path:
        raise InvalidAddress("a path must not be empty")
    if "\x00" in path:
        raise InvalidAddress(f"the path {path!r} contains a NUL")
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise InvalidAddress(
            f"the path {path!r} cannot be encoded as UTF-8: {error.reason}"
        ) from None


def _split(url: str) -> tuple[str, str]:
    """Return the canonical store and the raw path of a URL; the caller checks both."""
    if not isinstance(url, str):
        raise InvalidAddress(f"an address must be str, not {type(url).__name__}")
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise InvalidAddress(f"{url!r} is not an address: use {_FORMS}")
    scheme = scheme.lower()
    host, _, path = rest.partition("/")
    if scheme != AZURE_SCHEME:
        return f"{scheme}://{host}", path
    if host.isascii():  # otherwise letters of other scripts could become Latin letters
        host = host.lower().removesuffix(":443")
    container, _, path = path.partition("/")
    return f"{scheme}://{host}/{container}", path
