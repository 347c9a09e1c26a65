"""Storage locations given by clients: storage namespaces and object addresses.

A location has one spelling, defined by `lakebed.block.address`. Permissions are checked for the
same spelling that is used, so that two spellings of a location cannot be treated differently.

Path components ``.`` and ``..`` are refused. Storages take them as ordinary names, but programs in
between may resolve them, and reach another location than the one permitted.
"""

from lakebed.block import Address, InvalidAddress, Namespace


def parse_namespace(url: str) -> Namespace:
    """Parse a client's storage namespace; raise `InvalidAddress` if invalid or with dots."""
    namespace = Namespace.parse(url)
    _refuse_dots(namespace, namespace.prefix)
    return namespace


def parse_address(url: str) -> Address:
    """Parse a client's object address; raise `InvalidAddress` if invalid or with dots."""
    address = Address.parse(url)
    _refuse_dots(address, address.path)
    return address


def canonical_path(place: Namespace | Address) -> str:
    """Return the spelling of a location for permissions: canonical, without a trailing slash.

    (Policies are parsed so that a trailing slash makes no difference.)
    """
    text = str(place)
    return text.removesuffix("/") if isinstance(place, Namespace) else text


def _refuse_dots(place: Namespace | Address, path: str) -> None:
    if not {".", ".."}.isdisjoint(path.split("/")):
        raise InvalidAddress(
            f"{place} cannot be used: its path must not have a component '.' or '..'"
        )
