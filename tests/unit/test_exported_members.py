"""Adding a public name is a visible change."""

import lakebed.kv


def test_the_public_names_of_the_store() -> None:
    assert sorted(lakebed.kv.__all__) == [
        "ABSENT",
        "CorruptRecord",
        "EXISTS",
        "Entry",
        "ForeignStore",
        "InvalidArgument",
        "KVError",
        "KeyNotFound",
        "LimitExceeded",
        "OutcomeUnknown",
        "Predicate",
        "PredicateFailed",
        "SchemaTooNew",
        "Store",
        "StoreClosed",
        "StoreFull",
        "StoreUnavailable",
        "Version",
        "open_store",
    ]
    for name in lakebed.kv.__all__:
        assert hasattr(lakebed.kv, name)
