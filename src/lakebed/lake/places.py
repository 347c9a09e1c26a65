"""Places in the storage that clients name: where a repository goes, where an object is.

A place has one spelling, that of `lakebed.block.address`. Permissions are asked for it, and it is
what is used: two spellings of one place are allowed or denied alike.

A component ``.`` or ``..`` is refused. To a storage it is a name like any other, but programs on
the way there may resolve it, and then the place would be another one than the permission was for.
"""

from lakebed.block import Address, InvalidAddress, Namespace


def parse_namespace(url: str) -> Namespace:
    """Return the storage namespace that a client names.

    Raises:
        InvalidAddress: It is not a URL of a storage, or has a component ``.`` or ``..``.
    """
    namespace = Namespace.parse(url)
    _refuse_dots(namespace, namespace.prefix)
    return namespace


def parse_address(url: str) -> Address:
    """Return the address that a client names.

    Raises:
        InvalidAddress: It is not a URL of an object, or has a component ``.`` or ``..``.
    """
    address = Address.parse(url)
    _refuse_dots(address, address.path)
    return address


def spelling_of(place: Namespace | Address) -> str:
    """Return the one spelling of a place, as permissions name it; of a namespace, no slash ends it.

    (Policies are read so that a slash at the end makes no difference.)
    """
    text = str(place)
    return text.removesuffix("/") if isinstance(place, Namespace) else text


def _refuse_dots(place: Namespace | Address, path: str) -> None:
    if not {".", ".."}.isdisjoint(path.split("/")):
        raise InvalidAddress(
            f"{place} cannot be used: no component of its path may be '.' or '..'; write the place"
            " that is meant"
        )
