"""Checksums of whole objects, from those of their parts: as if all bytes had been read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.lake.checksums import ALGORITHMS, SCHEMES, Checksum, ChecksumType, Scheme, of_parts

FULL = sorted(each.algorithm for each in SCHEMES if each.type is ChecksumType.FULL_OBJECT)


def checksum(algorithm: str, body: bytes) -> Checksum:
    digest = ALGORITHMS[algorithm]()
    digest.update(body)
    return Checksum.of(algorithm, digest.digest())


@given(st.sampled_from(FULL), st.lists(st.binary(max_size=300), max_size=9))
def test_a_crc_of_all_bytes_follows_from_those_of_the_parts(
    algorithm: str, bodies: list[bytes]
) -> None:
    parts = [(checksum(algorithm, body), len(body)) for body in bodies]
    whole = of_parts(Scheme(algorithm, ChecksumType.FULL_OBJECT), parts)
    assert whole == checksum(algorithm, b"".join(bodies))


@pytest.mark.parametrize("algorithm", FULL)
@given(sizes=st.lists(st.integers(0, 3 << 20), min_size=1, max_size=3))
def test_also_of_large_parts(algorithm: str, sizes: list[int]) -> None:
    parts = [(checksum(algorithm, bytes(size)), size) for size in sizes]
    whole = of_parts(Scheme(algorithm, ChecksumType.FULL_OBJECT), parts)
    assert whole == checksum(algorithm, bytes(sum(sizes)))


@pytest.mark.parametrize("algorithm", FULL)
def test_also_of_parts_that_are_longer_than_32_bits_tell(algorithm: str) -> None:
    scheme = Scheme(algorithm, ChecksumType.FULL_OBJECT)
    gib = (of_parts(scheme, [(checksum(algorithm, bytes(1 << 20)), 1 << 20)] * 1024), 1 << 30)
    five = (of_parts(scheme, [gib] * 5), 5 << 30)
    first = (checksum(algorithm, b"first"), 5)
    assert of_parts(scheme, [first, five]) == of_parts(scheme, [first, *[gib] * 5])


def test_a_composite_checksum_as_s3_makes_it() -> None:
    """Computed once with `printf '...' | openssl sha256 -binary`, the digests one after another."""
    parts = [(checksum("sha256", body), len(body)) for body in (b"one", b"two")]
    whole = of_parts(Scheme("sha256", ChecksumType.COMPOSITE), parts)
    assert whole.value == "EZFMGaKKmMV9EvPM5sMreUR4T0tHgacGwk6x3ChOKFY=-2"
    assert whole.type is ChecksumType.COMPOSITE
    assert Checksum.parse(str(whole)) == whole


def test_checksum_schemes() -> None:
    """CRC64NVME is of all bytes always; hashes are not to be combined."""
    assert {f"{each.algorithm} {each.type}" for each in SCHEMES} == {
        "crc32 COMPOSITE",
        "crc32 FULL_OBJECT",
        "crc32c COMPOSITE",
        "crc32c FULL_OBJECT",
        "crc64nvme FULL_OBJECT",
        "sha1 COMPOSITE",
        "sha256 COMPOSITE",
    }
