"""DuckDB's own client of S3, the extension httpfs, against a real server."""

from collections.abc import Iterator

import duckdb
import httpx
import pytest

from tests.compat.s3_tools import httpfs
from tests.kit.s3_gateway import Gateway


@pytest.fixture
def connection(gateway: Gateway) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        opened.execute(f"LOAD '{httpfs(duckdb.__version__)}'")
        opened.execute(
            f"CREATE SECRET (TYPE s3, ENDPOINT '{gateway.endpoint}', USE_SSL false,"
            f" URL_STYLE 'path', REGION '{gateway.region}',"
            f" KEY_ID '{gateway.access_key}', SECRET '{gateway.secret_key}')"
        )
        yield opened


def value(connection: duckdb.DuckDBPyConnection, query: str) -> object:
    row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def test_a_partitioned_table_is_read_back_from_a_commit(
    gateway: Gateway, connection: duckdb.DuckDBPyConnection
) -> None:
    connection.execute(
        "COPY (SELECT range AS number, range % 3 AS remainder FROM range(30000))"
        " TO 's3://lake/main/duck' (FORMAT parquet, PARTITION_BY remainder)"
    )
    commit = httpx.post(
        f"{gateway.url}/api/v1/repositories/lake/branches/main/commits",
        json={"message": "numbers"},
        auth=(gateway.access_key, gateway.secret_key),
        timeout=60,
    ).json()["id"]
    connection.execute("COPY (SELECT 1) TO 's3://lake/main/duck/remainder=0/more.parquet'")
    for ref, count in ((commit, 10000), ("main", 10001)):
        query = f"SELECT count(*) FROM 's3://lake/{ref}/duck/remainder=0/*.parquet'"
        assert value(connection, query) == count
    total = f"SELECT sum(number) FROM 's3://lake/{commit}/duck/**/*.parquet' WHERE remainder = 2"
    assert value(connection, total) == sum(range(2, 30000, 3))


@pytest.mark.parametrize(
    "name", ["a b", "a+b", "100%", "%41", "ü/ö", "x&y=z;", "~t(1)@$!", "k" * 900]
)
def test_odd_names(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    url = f"s3://lake/main/odd duck/{name}.csv"
    connection.execute(f"COPY (SELECT 42 AS answer) TO '{url}'")
    assert value(connection, f"SELECT answer FROM read_csv('{url}')") == 42


def test_a_large_file_goes_in_parts(
    gateway: Gateway, connection: duckdb.DuckDBPyConnection
) -> None:
    connection.execute("SET s3_uploader_max_filesize = '50GB'")  # then parts have 5 MB
    connection.execute(
        "COPY (SELECT hash(range) AS a, hash(range + 1) AS b FROM range(4000000))"
        " TO 's3://lake/main/large.parquet' (COMPRESSION uncompressed)"
    )
    found = gateway.client().head_object(Bucket="lake", Key="main/large.parquet")
    assert found["ContentLength"] > 60_000_000
    assert int(found["ETag"].strip('"').partition("-")[2]) > 1
    # Each b is the a of the next row.
    overlap = (
        "SELECT count(*) FROM 's3://lake/main/large.parquet' AS here"
        " SEMI JOIN 's3://lake/main/large.parquet' AS there ON here.b = there.a"
    )
    assert value(connection, overlap) == 3_999_999


def test_a_wrong_secret_is_refused(gateway: Gateway, connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(
        f"CREATE OR REPLACE SECRET (TYPE s3, ENDPOINT '{gateway.endpoint}', USE_SSL false,"
        f" URL_STYLE 'path', KEY_ID '{gateway.access_key}', SECRET 'guessed')"
    )
    with pytest.raises(duckdb.HTTPException, match="403"):
        connection.execute("COPY (SELECT 1) TO 's3://lake/main/never.parquet'")
