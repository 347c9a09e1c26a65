"""Checksums of objects and parts in headers and XML: what requests ask for, what answers show.

Three things are shown, each as headers and as XML elements:

- the value alone, of a part: ``x-amz-checksum-crc32``
- value and type, of an object: the type says whether the checksum is that of all bytes
  (``FULL_OBJECT``) or was made from those of the parts (``COMPOSITE``)
- algorithm and type, of an upload that is still open: how the checksum of its object will be made
"""

from typing import Final

from lakebed.lake.checksums import SCHEMES, Checksum, ChecksumType, Scheme
from lakebed.server.s3.body_checksums import HEADER_PREFIX, checksum_values, not_a_checksum
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.request import S3Request
from lakebed.server.s3.xml_writer import Markup, element

ALGORITHM_HEADER: Final = "x-amz-checksum-algorithm"
TYPE_HEADER: Final = "x-amz-checksum-type"


def part_headers(checksum: Checksum | None) -> dict[str, str]:
    """Return the header with the checksum of a part, if it has one."""
    return {} if checksum is None else {HEADER_PREFIX + checksum.algorithm: checksum.value}


def part_elements(checksum: Checksum | None) -> list[Markup]:
    """Return the element with the checksum of a part, if it has one."""
    if checksum is None:
        return []
    return [element(f"Checksum{checksum.algorithm.upper()}", checksum.value)]


def object_headers(checksum: Checksum | None) -> dict[str, str]:
    """Return the headers with the checksum of an object and its type, if it has one."""
    if checksum is None:
        return {}
    return {**part_headers(checksum), TYPE_HEADER: checksum.type}


def object_elements(checksum: Checksum | None) -> list[Markup]:
    """Return the elements with the checksum of an object and its type, if it has one."""
    if checksum is None:
        return []
    return [*part_elements(checksum), element("ChecksumType", checksum.type)]


def upload_headers(scheme: Scheme | None) -> dict[str, str]:
    """Return the headers with the algorithm and type that an upload was created with, if any."""
    if scheme is None:
        return {}
    return {ALGORITHM_HEADER: scheme.algorithm.upper(), TYPE_HEADER: scheme.type}


def upload_elements(scheme: Scheme | None) -> list[Markup]:
    """Return the elements with the algorithm and type that an upload was created with, if any."""
    if scheme is None:
        return []
    return [
        element("ChecksumAlgorithm", scheme.algorithm.upper()),
        element("ChecksumType", scheme.type),
    ]


def requested_scheme(request: S3Request) -> Scheme | None:
    """Return how the checksum of an object in parts is to be made; None: it is to have none.

    Raises:
        S3Error: `INVALID_REQUEST`: the algorithm is unknown, or has no checksums of this type.
    """
    name, asked = request.header(ALGORITHM_HEADER), requested_type(request)
    if name is None and asked is None:
        return None
    algorithm = (name or "").lower()
    # A request that names no type gets a composite checksum, if the algorithm has those.
    for each in [ChecksumType.COMPOSITE, ChecksumType.FULL_OBJECT] if asked is None else [asked]:
        scheme = Scheme(algorithm, each)
        if scheme in SCHEMES:
            return scheme
    wanted = f"checksums of the type {asked}" if asked else "checksums"
    raise S3Error(
        ErrorCode.INVALID_REQUEST,
        f'there are no {wanted} by the {ALGORITHM_HEADER} "{algorithm[:100]}"',
    )


def requested_type(request: S3Request) -> ChecksumType | None:
    """Return the type of checksum that a request names; None: it names none.

    Raises:
        S3Error: `INVALID_REQUEST`: the type is unknown.
    """
    name = request.header(TYPE_HEADER)
    if name is None:
        return None
    try:
        return ChecksumType(name)
    except ValueError:
        types = " or ".join(ChecksumType)
        raise S3Error(
            ErrorCode.INVALID_REQUEST, f'{TYPE_HEADER} must be {types}, not "{name[:100]}"'
        ) from None


def requested_checksum(request: S3Request) -> Checksum | None:
    """Return the checksum of the whole object that a request names; None: it names none.

    Raises:
        S3Error: `INVALID_REQUEST`: it names several, or a value that is not a checksum.
    """
    given = checksum_values(request.environ)
    if len(given) > 1:
        raise S3Error(ErrorCode.INVALID_REQUEST, "send one x-amz-checksum- header, not several")
    for name, value in given.items():
        checksum = Checksum.parse(f"{name.removeprefix(HEADER_PREFIX)}:{value}")
        if checksum is None:
            raise not_a_checksum(name, value)
        return checksum
    return None
