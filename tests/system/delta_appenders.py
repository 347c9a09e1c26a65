"""A program for an environment with deltalake: appenders to one Delta table, and its rows.

It gets the storage options of deltalake as JSON, and prints as JSON which rows were acknowledged,
which appends ended in an error, and what the table holds in the end.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

TABLE = "s3://lake/main/tables/appended"
PATIENT = CommitProperties(max_commit_retries=200)


def main(options: dict[str, str], read_options: dict[str, str], writers: int, each: int) -> None:
    def rows(values: list[int]) -> pa.Table:
        return pa.table({"number": pa.array(values, pa.int64())})

    write_deltalake(TABLE, rows([]), storage_options=read_options)

    def append(writer: int) -> list[tuple[int, str]]:
        outcomes = []
        for number in range(writer * each, (writer + 1) * each):
            try:
                write_deltalake(
                    TABLE,
                    rows([number]),
                    mode="append",
                    storage_options=options,
                    commit_properties=PATIENT,
                )
            except Exception as error:  # noqa: BLE001 - any: it is part of the answer
                outcomes.append((number, f"{type(error).__name__}: {error}"))
            else:
                outcomes.append((number, ""))
        return outcomes

    with ThreadPoolExecutor(writers) as pool:
        outcomes = [one for done in pool.map(append, range(writers)) for one in done]
    table = DeltaTable(TABLE, storage_options=read_options)
    found = {
        "acknowledged": [number for number, error in outcomes if not error],
        "errors": {number: error for number, error in outcomes if error},
        "rows": table.to_pyarrow_table()["number"].to_pylist(),
        "version": table.version(),
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
