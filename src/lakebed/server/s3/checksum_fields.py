"""The checksums of objects and of parts, as headers and documents tell of them and ask for them."""

from typing import Final

from lakebed.catalog.checksums import SCHEMES, Checksum, ChecksumType, Scheme
from lakebed.server.s3.body_checksums import HEADER_PREFIX
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.payload import given_checksums
from lakebed.server.s3.request import S3Request
from lakebed.server.s3.xml_writer import Markup, element

ALGORITHM_HEADER: Final = "x-amz-checksum-algorithm"
TYPE_HEADER: Final = "x-amz-checksum-type"


def value_headers(checksum: Checksum | None) -> dict[str, str]:
    """Return the header that tells of the checksum of a part, if it has one."""
    return {} if checksum is None else {HEADER_PREFIX + checksum.algorithm: checksum.value}


def checksum_headers(checksum: Checksum | None) -> dict[str, str]:
    """Return the headers that tell of an object's checksum, if it has one."""
    if checksum is None:
        return {}
    return {**value_headers(checksum), TYPE_HEADER: checksum.type}


def scheme_headers(scheme: Scheme | None) -> dict[str, str]:
    """Return the headers that tell how the checksum of an upload's object is made, if it is."""
    if scheme is None:
        return {}
    return {ALGORITHM_HEADER: scheme.algorithm.upper(), TYPE_HEADER: scheme.type}


def value_elements(checksum: Checksum | None) -> list[Markup]:
    """Return the element that tells of the checksum of a part, if it has one."""
    if checksum is None:
        return []
    return [element(f"Checksum{checksum.algorithm.upper()}", checksum.value)]


def checksum_elements(checksum: Checksum | None) -> list[Markup]:
    """Return the elements that tell of an object's checksum, if it has one."""
    if checksum is None:
        return []
    return [*value_elements(checksum), element("ChecksumType", checksum.type)]


def scheme_elements(scheme: Scheme | None) -> list[Markup]:
    """Return the elements that tell how the checksum of an upload's object is made, if it is."""
    if scheme is None:
        return []
    return [
        element("ChecksumAlgorithm", scheme.algorithm.upper()),
        element("ChecksumType", scheme.type),
    ]


def requested_scheme(call: S3Request) -> Scheme | None:
    """Return how the checksum of an object in parts is to be made; None: it is to have none.

    Raises:
        S3Error: `INVALID_REQUEST`: there is no such algorithm, or it has no checksums of this type.
    """
    name, asked = call.header(ALGORITHM_HEADER), requested_type(call)
    if name is None and asked is None:
        return None
    algorithm = (name or "").lower()
    for each in ChecksumType if asked is None else [asked]:  # composite, unless it says otherwise
        scheme = Scheme(algorithm, each)
        if scheme in SCHEMES:
            return scheme
    raise S3Error(
        ErrorCode.INVALID_REQUEST,
        f"there is no {asked or 'object'} checksum of the {ALGORITHM_HEADER} {algorithm[:100]!r}",
    )


def requested_type(call: S3Request) -> ChecksumType | None:
    """Return the type of checksums that a request names; None: it names none.

    Raises:
        S3Error: `INVALID_REQUEST`: there is no such type.
    """
    name = call.header(TYPE_HEADER)
    if name is None:
        return None
    try:
        return ChecksumType(name)
    except ValueError:
        types = " or ".join(ChecksumType)
        raise S3Error(ErrorCode.INVALID_REQUEST, f"{TYPE_HEADER} must be {types}") from None


def requested_checksum(call: S3Request) -> Checksum | None:
    """Return the checksum of the whole object that a request names; None: it names none.

    Raises:
        S3Error: `INVALID_REQUEST`: it names several, or what is no checksum.
    """
    given = given_checksums(call.environ)
    if len(given) > 1:
        raise S3Error(ErrorCode.INVALID_REQUEST, "an object has one x-amz-checksum- header")
    for name, value in given.items():
        checksum = Checksum.parse(f"{name.removeprefix(HEADER_PREFIX)}:{value}")
        if checksum is None:
            raise S3Error(ErrorCode.INVALID_REQUEST, f"the value of {name} is not such a checksum")
        return checksum
    return None
