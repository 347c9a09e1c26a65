"""Checksums of objects and parts in request headers, response headers and XML.

Answers show three kinds of information, each as headers or as XML elements:

- the value alone, of a part: ``x-amz-checksum-crc32``
- value and type, of an object: the type says whether the checksum covers all bytes
  (``FULL_OBJECT``) or the checksums of the parts (``COMPOSITE``)
- algorithm and type, of an open upload: how the checksum of its object will be computed
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
    """Return the header with the checksum of a part, if any."""
    return {} if checksum is None else {HEADER_PREFIX + checksum.algorithm: checksum.value}


def part_elements(checksum: Checksum | None) -> list[Markup]:
    """Return the element with the checksum of a part, if any."""
    if checksum is None:
        return []
    return [element(f"Checksum{checksum.algorithm.upper()}", checksum.value)]


def object_headers(checksum: Checksum | None) -> dict[str, str]:
    """Return the headers with the checksum of an object and its type, if any."""
    if checksum is None:
        return {}
    return {**part_headers(checksum), TYPE_HEADER: checksum.type}


def object_elements(checksum: Checksum | None) -> list[Markup]:
    """Return the elements with the checksum of an object and its type, if any."""
    if checksum is None:
        return []
    return [*part_elements(checksum), element("ChecksumType", checksum.type)]


def upload_headers(scheme: Scheme | None) -> dict[str, str]:
    """Return the headers with the algorithm and type of an upload's checksums, if any."""
    if scheme is None:
        return {}
    return {ALGORITHM_HEADER: scheme.algorithm.upper(), TYPE_HEADER: scheme.type}


def upload_elements(scheme: Scheme | None) -> list[Markup]:
    """Return the elements with the algorithm and type of an upload's checksums, if any."""
    if scheme is None:
        return []
    return [
        element("ChecksumAlgorithm", scheme.algorithm.upper()),
        element("ChecksumType", scheme.type),
    ]


def requested_scheme(request: S3Request) -> Scheme | None:
    """Return the requested checksum scheme of a multipart upload, or None for no checksum.

    Raises:
        S3Error: `INVALID_REQUEST`: the algorithm is unknown, or lacks checksums of this type.
    """
    name, asked = request.header(ALGORITHM_HEADER), requested_type(request)
    if name is None and asked is None:
        return None
    algorithm = (name or "").lower()
    # The default type is composite, if the algorithm supports it.
    for each in [ChecksumType.COMPOSITE, ChecksumType.FULL_OBJECT] if asked is None else [asked]:
        scheme = Scheme(algorithm, each)
        if scheme in SCHEMES:
            return scheme
    wanted = f"checksums of the type {asked}" if asked else "checksums"
    raise S3Error(
        ErrorCode.INVALID_REQUEST,
        f'the {ALGORITHM_HEADER} "{algorithm[:100]}" has no {wanted}',
    )


def requested_type(request: S3Request) -> ChecksumType | None:
    """Return the requested type of checksum, or None if not given."""
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
    """Return the request's checksum of the whole object, or None if not given.

    Raises:
        S3Error: `INVALID_REQUEST`: several checksums, or a malformed value.
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
