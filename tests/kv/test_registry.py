import sys
from pathlib import Path

import pytest

from lakebed.base.errors import LakebedError, MissingExtraError
from lakebed.kv import (
    ABSENT,
    InvalidArgument,
    PredicateFailed,
    SchemaTooNew,
    check_url,
    open_store,
    serves_one_process,
)
from lakebed.kv.schema import METADATA_PARTITION, SCHEMA_KEY, SCHEMA_VERSION
from lakebed.kv.store import Put, puts
from tests.kit.drivers import RECORDS, Packages


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        (
            "oracle://localhost",
            "unsupported database URL: oracle; use memory://, sqlite://, postgresql://",
        ),
        ("oracle://localhost", r"install a package .* \(an entry point in the group lakebed\.kv\)"),
        ("lakebed.db", "no scheme"),
        ("memory://name", "no name"),
    ],
)
def test_a_url_that_nobody_serves_is_refused(url: str, complaint: str) -> None:
    with pytest.raises(InvalidArgument, match=complaint):
        open_store(url)


@pytest.mark.parametrize("secret", ["s3cr\u2100et", "s3cr[et", "s3cr et%"])
@pytest.mark.parametrize("scheme", ["postgresql", "mysql", "etcd", "valkey", "redis", "dynamodb"])
def test_a_url_that_cannot_be_read_does_not_show_its_password(scheme: str, secret: str) -> None:
    with pytest.raises(LakebedError) as caught:
        open_store(f"{scheme}://user:{secret}@127.0.0.1:1/0")
    assert "s3cr" not in str(caught.value)


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    # None in sys.modules is how Python itself marks a module that cannot be imported.
    for name in [name for name in sys.modules if name.startswith("psycopg")]:
        monkeypatch.setitem(sys.modules, name, None)
    for name in [name for name in sys.modules if "drivers.postgresql" in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'lakebed\[postgres\]'"):
        open_store("postgresql://user:secret@127.0.0.1/db")


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 65, "one&namespace=two"])
def test_invalid_namespaces_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="invalid namespace"):
        open_store(f"memory://?namespace={name}")


def test_installations_in_one_database_do_not_see_each_other(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lakebed.db"
    with (
        open_store(url) as plain,
        open_store(f"{url}?namespace=one") as one,
        open_store(f"{url}?namespace=two") as two,
    ):
        stores = [plain, one, two]
        for number, store in enumerate(stores):
            store.set(b"p", b"key", b"%d" % number)
            store.write(puts(b"p", [(b"many", b"%d" % number)]))
            store.write([Put(b"p", b"of all", b"%d" % number)])
        for number, store in enumerate(stores):
            assert [item.value for item in store.scan(b"p")] == [b"%d" % number] * 3
        for key in (b"key", b"many", b"of all"):
            one.delete(b"p", key)
        assert [len(list(store.scan(b"p"))) for store in stores] == [3, 0, 3]
        with pytest.raises(PredicateFailed):
            one.set(b"p", b"key", b"new", two.get(b"p", b"key").predicate)
        one.write([Put(b"p", b"key", b"", ABSENT)])
        with pytest.raises(PredicateFailed) as caught:
            two.write([Put(b"p", b"key", b"", ABSENT)])
        assert (caught.value.partition, caught.value.key) == (b"p", b"key")
    # A namespace is a store of its own, with a version of its own in it.
    with open_store(f"{url}?namespace=two") as two:
        two.set(METADATA_PARTITION, SCHEMA_KEY, b"%d" % (SCHEMA_VERSION + 1))
    open_store(f"{url}?namespace=one").close()
    with pytest.raises(SchemaTooNew):
        open_store(f"{url}?namespace=two")


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("dynamodb://a", "does not name a table"),
        ("dynamodb://lakebed?regio=x", "URL: regio; use"),
        ("mysql://user:secret-word@host", "with a user, a host and a database"),
        ("mysql://host/lakebed", "with a user, a host and a database"),
        ("mysql://user:secret-word@host/a?pool_size=0", "pool_size must be a number from 1 to"),
        ("mariadb://user:secret-word@host/a?ssl=1", "URL: ssl; use"),
        ("mysql://user:secret-word@host/a?tls=true&ca=/nowhere", "certificates in /nowhere"),
        ("valkey://:secret-word@/0", "malformed"),
        ("valkey://:secret-word@host/zero", "malformed"),
        ("valkey://host/0?tls=perhaps", "tls must be true or false"),
        ("redis://host/0?durable=1", "durable must be true or false"),
        ("etcd://user:secret-word@host/x", "with a host and a port"),
        ("etcd://host:2379/x?ssl=1", "URL: ssl; use"),
    ],
)
def test_a_url_that_cannot_be_is_refused(url: str, complaint: str) -> None:
    with pytest.raises(InvalidArgument, match=complaint) as caught:
        open_store(url)
    assert "secret-word" not in str(caught.value)


def test_each_namespace_lists_its_own_partitions(tmp_path: Path) -> None:
    """One whose name begins as another's does, too; and the store without one lists neither."""
    url = f"sqlite:///{tmp_path}/shared.db"
    for namespace, partition in (("a", b"p1"), ("ab", b"p2")):
        with open_store(f"{url}?namespace={namespace}") as store:
            store.set(partition, b"key", b"value")
            assert set(store.partitions()) == {METADATA_PARTITION, partition}
    with open_store(url) as store:
        assert list(store.partitions()) == [METADATA_PARTITION]


@pytest.mark.parametrize("single", [False, True])
def test_the_driver_of_another_package_opens_its_scheme(packages: Packages, single: bool) -> None:
    packages.install("records", f"{RECORDS}\nSINGLE_PROCESS = {single}")
    url = "shelf://user:secret-word@host/path"
    check_url(url)
    assert serves_one_process(url) == single
    with open_store(f"{url}?namespace=mine") as store:
        store.set(b"p", b"key", b"value")
        assert store.get(b"p", b"key").value == b"value"
    with pytest.raises(InvalidArgument, match="percent-encode") as caught:
        open_store("shelf://user:secret@word@host/path")
    assert "word@" not in str(caught.value)


def test_other_packages_do_not_replace_our_drivers(packages: Packages, tmp_path: Path) -> None:
    packages.install("records", "raise AssertionError", scheme="sqlite")
    open_store(f"sqlite:///{tmp_path}/lakebed.db").close()
