"""``encoding/json``, ``encoding/yaml`` and ``encoding/parquet``."""

import json
from typing import Any, Final

import yaml

from lakebed.lake.hooks.lua_child.values import CallFailed, readable, text
from lakebed.lake.hooks.yaml_reader import plain, read_yaml


def _dump(value: Any, **layout: Any) -> str:
    return json.dumps(readable(value), ensure_ascii=False, sort_keys=True, **layout)


def _marshal_json(value: object, options: object = None) -> str:
    given = options if isinstance(options, dict) else {}
    indent = readable(given.get("indent", b""))
    prefix = readable(given.get("prefix", b""))
    if not indent and not prefix:
        return _dump(value, separators=(",", ":")) + "\n"
    shown = _dump(value, indent=indent)
    return shown.replace("\n", f"\n{prefix}") + "\n"


def _unmarshal_json(data: object) -> object:
    try:
        return json.loads(text(data))
    except ValueError as error:
        raise CallFailed(f"invalid JSON: {error}") from error


def _marshal_yaml(value: object) -> str:
    return str(yaml.safe_dump(readable(value), allow_unicode=True, sort_keys=True))


def _read_parquet_schema(data: object) -> list[dict[str, str]]:
    import pyarrow as pa  # slow to import, and rarely needed
    import pyarrow.parquet as pq

    try:
        schema = pq.ParquetFile(pa.BufferReader(text(data))).schema
    except (pa.ArrowException, OSError) as error:
        raise CallFailed(f"invalid Parquet: {error}") from error
    rows: list[dict[str, str]] = []
    groups: set[tuple[str, ...]] = set()
    for index in range(len(schema)):
        column = schema.column(index)
        *above, name = column.path.split(".")
        for depth in range(1, len(above) + 1):
            group = tuple(above[:depth])
            if group not in groups:
                groups.add(group)
                rows.append({"name": group[-1], "type": "N/A"})
        rows.append({"name": name, "type": column.physical_type})
    return rows


JSON: Final = {"marshal": _marshal_json, "unmarshal": _unmarshal_json}
YAML: Final = {"marshal": _marshal_yaml, "unmarshal": lambda data: plain(read_yaml(text(data)))}
PARQUET: Final = {"get_schema": _read_parquet_schema}
