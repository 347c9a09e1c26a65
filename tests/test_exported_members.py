"""Adding a public name is a visible change."""

import lakebed.block
import lakebed.kv


def test_the_public_names_of_the_store() -> None:
    assert sorted(lakebed.kv.__all__) == [
        "ABSENT",
        "ANY",
        "CorruptRecord",
        "EXISTS",
        "ForeignStore",
        "InvalidArgument",
        "Item",
        "KVError",
        "KeyNotFound",
        "LimitExceeded",
        "OutcomeUnknown",
        "Pair",
        "Predicate",
        "PredicateFailed",
        "Put",
        "SchemaTooNew",
        "SchemaTooOld",
        "Store",
        "StoreClosed",
        "StoreFull",
        "StoreHalted",
        "StoreLocked",
        "StoreUnavailable",
        "StoreUnreachable",
        "UnsafeStore",
        "Version",
        "check_url",
        "open_store",
        "serves_one_process",
    ]
    for name in lakebed.kv.__all__:
        assert hasattr(lakebed.kv, name)


def test_the_public_names_of_block_storage() -> None:
    assert sorted(lakebed.block.__all__) == [
        "Address",
        "AlreadyExists",
        "Archived",
        "AzureSettings",
        "Between",
        "BlockError",
        "BlockSettings",
        "BlockStore",
        "ByteRange",
        "ByteStream",
        "DeleteResult",
        "ETag",
        "Encryption",
        "Forbidden",
        "FromOffset",
        "GCSSettings",
        "InvalidAddress",
        "InvalidArgument",
        "InvalidPart",
        "LIST_SCHEMA",
        "LocalSettings",
        "Locked",
        "MemorySettings",
        "Namespace",
        "NotSupported",
        "ObjectInfo",
        "ObjectNotFound",
        "PART_BYTES_MAX",
        "PART_NUMBER_MAX",
        "Part",
        "PartInfo",
        "PreconditionFailed",
        "PutResult",
        "RangeNotSatisfiable",
        "S3Settings",
        "StorageClosed",
        "StorageFull",
        "StorageUnavailable",
        "Suffix",
        "URLSettings",
        "Upload",
        "UploadId",
        "UploadNotFound",
        "WrittenPart",
        "open_block",
    ]
    for name in lakebed.block.__all__:
        assert hasattr(lakebed.block, name)
