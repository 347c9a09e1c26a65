import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.block import Address, InvalidAddress, Namespace
from lakebed.block.address import StoreName

STORES = [
    "local://data",
    "mem://data",
    "s3://bucket.with-dots",
    "gs://bucket_1",
    "https://account.blob.core.windows.net/container",
]

stores = st.sampled_from(STORES)
paths = st.text(
    st.characters(codec="utf-8", exclude_characters="\x00") | st.sampled_from("/.%? #:@é😀"),
    min_size=1,
)
prefixes = st.just("") | paths.map(lambda path: path + "/")
namespaces = st.builds(Namespace, stores, prefixes)


@given(st.builds(Address, stores, paths))
def test_an_address_survives_its_text(address: Address) -> None:
    assert Address.parse(str(address)) == address
    assert pickle.loads(pickle.dumps(address)) == address


@given(namespaces)
def test_a_namespace_survives_its_text(namespace: Namespace) -> None:
    assert Namespace.parse(str(namespace)) == namespace
    assert pickle.loads(pickle.dumps(namespace)) == namespace


@given(namespaces, paths)
def test_relative_and_absolute_convert_without_loss(namespace: Namespace, path: str) -> None:
    address = namespace.address(path)
    assert address in namespace
    assert namespace.relative(address) == path
    assert str(address) == str(namespace) + path


@given(namespaces, st.builds(Address, stores, paths))
def test_an_address_lies_in_a_namespace_if_it_can_be_made_relative(
    namespace: Namespace, address: Address
) -> None:
    if address in namespace:
        assert namespace.address(namespace.relative(address)) == address
    else:
        with pytest.raises(InvalidAddress):
            namespace.relative(address)


@given(st.lists(st.builds(Address, st.just(STORES[0]), paths)))
def test_addresses_of_one_store_are_ordered_as_bytes(addresses: list[Address]) -> None:
    assert sorted(addresses) == sorted(addresses, key=lambda address: address.path.encode())
    assert sorted(map(str, addresses)) == list(map(str, sorted(addresses)))


@pytest.mark.parametrize(
    ("spelling", "canonical"),
    [
        ("S3://bucket/Key", "s3://bucket/Key"),
        ("LOCAL://data/x", "local://data/x"),
        ("https://Account.Blob.Core.Windows.NET/c/x", "https://account.blob.core.windows.net/c/x"),
        ("https://a.blob.core.windows.net:443/c/x", "https://a.blob.core.windows.net/c/x"),
    ],
)
def test_two_spellings_of_one_address_are_equal(spelling: str, canonical: str) -> None:
    assert Address.parse(spelling) == Address.parse(canonical)
    assert hash(Address.parse(spelling)) == hash(Address.parse(canonical))
    assert str(Address.parse(spelling)) == canonical


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3://b/x", "s3://b//x"),
        ("s3://b/x", "s3://b/x/"),
        ("s3://b/x", "s3://b/X"),
        ("s3://b/a b", "s3://b/a%20b"),
        ("s3://b/a/b", "s3://b/a/./b"),
        ("s3://b/é", "s3://b/e\u0301"),
        ("s3://b/x", "gs://b/x"),
        ("s3://b/x", "s3://b/x?versionId=1"),
    ],
)
def test_keys_are_raw(one: str, other: str) -> None:
    assert Address.parse(one) != Address.parse(other)
    assert str(Address.parse(other)) == other


def test_a_slash_at_the_end_of_a_namespace_makes_no_difference() -> None:
    assert Namespace.parse("s3://b") == Namespace.parse("s3://b/") == Namespace("s3://b", "")
    assert Namespace.parse("s3://b/dev") == Namespace.parse("s3://b/dev/")
    assert Namespace.parse("s3://b/dev//") != Namespace.parse("s3://b/dev/")
    assert Namespace.parse("s3://b").folder("dev") == Namespace.parse("s3://b/dev")
    assert Namespace.parse("s3://b/dev").folder("x/") == Namespace.parse("s3://b/dev/x")


def test_a_namespace_is_not_the_parent_of_its_namesakes() -> None:
    dev = Namespace.parse("s3://b/dev")
    assert Address.parse("s3://b/dev/x") in dev
    for other in ("s3://b/dev-2/x", "s3://b/dev", "s3://b/dev/", "s3://c/dev/x", "gs://b/dev/x"):
        assert Address.parse(other) not in dev
        with pytest.raises(InvalidAddress, match="is not in"):
            dev.relative(Address.parse(other))


def test_the_parts_of_a_store() -> None:
    assert Address.parse("s3://b/x").parts == StoreName("s3", "b", "b")
    azure = Namespace.parse("https://acc.blob.core.windows.net/con/x")
    assert azure.parts == StoreName("https", "acc.blob.core.windows.net", "con")
    assert azure.prefix == "x/"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "bucket/key",
        "/etc/passwd",
        "s3:/bucket/key",
        "s3:///key",
        "ftp://host/key",
        "http://a.blob.core.windows.net/c/x",
        "https://example.org/c/x",
        "https://a.blob.core.windows.net:8080/c/x",
        "https://a.blob.core.windows.net//x",
        "https://a.blob.core.windows.net/UPPER/x",
        "https://user@a.blob.core.windows.net/c/x",
        "https://a.blob.core.windows.net./c/x",
        "https://a.blob.core.windows..net/c/x",
        "https://a.blob.core..windows.net/c/x",
        "https://\u212a.blob.core.windows.net/c/x",
        "s3://user@bucket/key",
        "s3://bucket:443/key",
        "s3://bu cket/key",
        "s3://../key",
        "local://.lakebed/key",
        "local://../key",
        "s3://bucket/a\x00b",
        "s3://bucket/\ud800",
        "s3://\ud800/x",
        "s3://bücket/x",
        "s3://MyBucket/x",
        "s3://bu\u212aet/x",
        "gs://Bucket/x",
        "local://Data/x",
        "mem://Data/x",
    ],
)
def test_invalid_addresses(url: str) -> None:
    with pytest.raises(InvalidAddress):
        Address.parse(url)
    with pytest.raises(ValueError):  # noqa: PT011 - it is also the builtin
        Namespace.parse(url)


@pytest.mark.parametrize(
    "url", ["s3://bucket", "s3://bucket/", "https://a.blob.core.windows.net/c"]
)
def test_an_address_has_a_path(url: str) -> None:
    with pytest.raises(InvalidAddress, match="must not be empty"):
        Address.parse(url)
    with pytest.raises(InvalidAddress, match="must not be empty"):
        Namespace.parse(url).address("")


def test_only_canonical_parts_make_an_address() -> None:
    for store in ("S3://bucket", "s3://bucket/", "s3://bucket/x", "bucket"):
        with pytest.raises(InvalidAddress):
            Address(store, "x")
        with pytest.raises(InvalidAddress):
            Namespace(store, "x/")
    with pytest.raises(InvalidAddress, match="slash"):
        Namespace("s3://bucket", "x")
    with pytest.raises(InvalidAddress, match="str"):
        Address("s3://bucket", b"x")  # type: ignore[arg-type]
