"""Addresses of lakeFS become those of the storage here, or are refused."""

from pathlib import Path

import pyarrow as pa
import pytest

from lakebed.block import (
    AzureSettings,
    BlockSettings,
    InvalidAddress,
    LocalSettings,
    S3Settings,
    open_block,
)
from lakebed.clients.migrate import lakefs_pb2 as pb
from lakebed.clients.migrate.addresses import AddressTranslator
from lakebed.clients.migrate.errors import UnreadableAddresses
from lakebed.clients.migrate.values import read_entries
from tests.clients.migrate.lakes import entry_of
from tests.kit.lakefs_tables import table, value

S3 = S3Settings(region="us-east-1", access_key_id="k", secret_access_key="s")
AZURE = AzureSettings(account="lake", account_key="a2V5")


def addresses(settings: BlockSettings, namespace: str) -> AddressTranslator:
    return AddressTranslator(
        open_block(settings), namespace, [Path("/var/lakefs"), Path("/mnt/data")]
    )


def settings_of(namespace: str, folder: Path) -> BlockSettings:
    if namespace.startswith("local"):
        return LocalSettings(folder)
    return S3 if namespace.startswith("s3") else AZURE


@pytest.mark.parametrize(
    ("namespace", "text", "canonical"),
    [
        ("s3://old/lake", "s3a://other/a%20b//c", "s3://other/a%20b//c"),
        ("s3a://old/lake", "S3N://other/a", "s3://other/a"),
        (
            "https://lake.blob.core.windows.net/old",
            "https://LAKE.dfs.core.windows.net/other/a",
            "https://lake.blob.core.windows.net/other/a",
        ),
        ("local://old/lake", "local:///var/lakefs/in/a b", "local://in/a b"),
        ("local://old/lake", "local:///mnt/data/in/a", "local://in/a"),
        ("local://old/lake", "local:///mnt/data/mnt/data/in/a", "local://in/a"),
        ("local:///mnt/data/old", "local://in/a", "local://in/a"),
        # A folder in the root can have the root's own path.
        (
            "local:///mnt/data/mnt/data/old",
            "local:///mnt/data/mnt/data/mnt/data/old/a",
            "local://mnt/data/old/a",
        ),
        ("local://mnt/data/old", "local:///mnt/data/mnt/data/old/a", "local://mnt/data/old/a"),
    ],
)
def test_other_spellings(namespace: str, text: str, canonical: str, tmp_path: Path) -> None:
    settings = settings_of(namespace, tmp_path)
    assert addresses(settings, namespace).canonical(text) == canonical


@pytest.mark.parametrize(
    ("namespace", "text", "reason"),
    [
        ("s3://old/lake", "s3://Old-Bucket/a", "in lower case"),
        ("s3://old/lake", "gs://old/a", "not an address of s3"),
        ("s3://old/lake", "s3://old/a/../b", "'.' or '..'"),
        ("s3://old/lake", "data/a", "is not an address"),
        ("local://old/lake", "local:///var/lakefs2/a", "not below a root of local storage"),
        ("local://old/lake", "local://old//a", "a component of its path is empty"),
        ("local://old/lake", "local:///var/lakefs/.lakebed/a", "not the name of a store"),
        (
            "https://lake.blob.core.windows.net/old",
            "https://other.blob.core.windows.net/old/a",
            "is not in the account",
        ),
    ],
)
def test_refused(namespace: str, text: str, reason: str, tmp_path: Path) -> None:
    settings = settings_of(namespace, tmp_path)
    found = addresses(settings, namespace)
    with pytest.raises(InvalidAddress, match=reason):
        found.canonical(text)
    with pytest.raises(UnreadableAddresses, match=r"1 entries of range r .*'k' has the address"):
        found.of_entries(entries_with(text), "range r")


@pytest.mark.parametrize("namespace", ["s3://Old/lake", "local://old/lake", "data"])
def test_a_namespace_that_the_storage_cannot_read_is_refused(namespace: str) -> None:
    with pytest.raises(InvalidAddress):
        addresses(S3, namespace)


def test_many_refused_addresses_are_counted() -> None:
    rows = [
        (b"%02d" % number, value(*entry_of(b"k", 1, "gs://b/x", pb.FULL))) for number in range(13)
    ]
    entries = pa.concat_tables(read_entries(table(rows), "r", "s3://old/lake"))
    with pytest.raises(UnreadableAddresses, match=r"13 entries of range r .*; and 3 more"):
        addresses(S3, "s3://old/lake").of_entries(entries, "range r")


def test_addresses_of_azure_are_urls_in_the_tables_of_lakefs() -> None:
    url = "https://lake.dfs.core.windows.net/old/a%20b/%C3%A9%25"
    found = addresses(AZURE, "https://lake.blob.core.windows.net/old").of_entries(
        entries_with(url), "range r"
    )
    expected = "https://lake.blob.core.windows.net/old/a b/é%"
    assert found.column("address").to_pylist() == [expected]


def entries_with(address: str) -> pa.Table:
    rows = [(b"k", value(*entry_of(b"k", 1, address, pb.FULL)))]
    return pa.concat_tables(read_entries(table(rows), "r", "s3://old/lake"))
