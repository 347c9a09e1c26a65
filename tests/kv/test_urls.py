"""URLs of databases: no error quotes a password, and clear text over a network is known."""

import pytest

from lakebed.kv import InvalidArgument, open_store
from lakebed.kv.registry import _DRIVERS, check_url
from lakebed.kv.urls import check_credentials, unencrypted_hosts

SECRETS = ("hunter2pw", "first", "last")


@pytest.mark.parametrize("scheme", sorted(_DRIVERS))
@pytest.mark.parametrize(
    "rest",
    [
        "u:first@hunter2pw@127.0.0.1:1/db",
        "u:first/hunter2pw@127.0.0.1:1/db",
        "u:first#hunter2pw@127.0.0.1:1/db",
        "u:first?hunter2pw@127.0.0.1:1/db",
        "u:1?hunter2pw@127.0.0.1:1/db",
        "u:1?first&hunter2pw@127.0.0.1:1/db?pool_size=2",
        "project/instance/table?emulator=u:hunter2pw@127.0.0.1:1",
        "account/container?endpoint=http://u:hunter2pw@127.0.0.1:1",
        "u:first@hunter2pw@127.0.0.1:1/db?namespace=x",
    ],
)
def test_a_password_that_is_not_escaped_is_refused_and_never_quoted(scheme: str, rest: str) -> None:
    url = f"{scheme}://{rest}"
    for call in (check_url, open_store):
        with pytest.raises(InvalidArgument) as caught:
            call(url)
        assert not [secret for secret in SECRETS if secret in str(caught.value)]


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////srv/a@b/lakebed.db",
        "rocksdb:////srv/a@b",
        "foundationdb:////etc/a@b.cluster",
        "postgresql:///db?host=/run/postgresql&user=ann@corp&password=p@w",
        "postgresql://ann%40corp:p%40w@db/lakebed",
        "mongodb://u:p@one,two/db?authSource=admin",
        "memory://",
    ],
)
def test_unescaped_characters_are_accepted(url: str) -> None:
    check_credentials(url)


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("mysql://u:p@db.corp:3306/lakebed", ["db.corp"]),
        ("mysql://u:p@db.corp/lakebed?tls=true", []),
        ("mysql://u:p@127.0.0.1/lakebed", []),
        ("valkey://10.0.0.1:6379/0", ["10.0.0.1"]),
        ("redis://localhost:6379/0", []),
        ("etcd://one:2379,127.0.0.1:2379,two:2379/p", ["one", "two"]),
        ("cassandra://u:p@[2001:db8::1]:9042/k", ["2001:db8::1"]),
        ("hbase://[::1]:9090/t", []),
        ("mongodb://u:p@db/lakebed", ["db"]),
        ("mongodb://u:p@db/lakebed?ssl=true", []),
        ("mongodb+srv://u:p@db.corp/lakebed", []),
        ("postgresql://u:p@db.corp/lakebed", ["db.corp"]),
        ("postgresql://u:p@db.corp/lakebed?sslmode=prefer", ["db.corp"]),
        ("postgresql://u:p@db.corp/lakebed?sslmode=verify-full", []),
        ("postgresql:///lakebed?host=/run/postgresql", []),
        ("postgresql:///lakebed?host=db.corp", ["db.corp"]),
        ("dynamodb://table?endpoint=http://db.corp:8000", ["db.corp"]),
        ("dynamodb://table?endpoint=http://127.0.0.1:8000", []),
        ("dynamodb://table?region=eu-west-1", []),
        ("sqlite:///lakebed.db", []),
        ("memory://", []),
    ],
)
def test_hosts_that_are_reached_in_clear_text(url: str, hosts: list[str]) -> None:
    assert unencrypted_hosts(url) == hosts
