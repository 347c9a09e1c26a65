"""Content types by file name."""

import pytest

from lakebed.base.content_types import content_type_of


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a/b.csv", "text/csv"),
        ("lakes.PARQUET", "application/vnd.apache.parquet"),
        ("x.json", "application/json"),
        ("events.jsonl", "application/jsonl"),
        ("a?b#c.ipynb", "application/x-ipynb+json"),
        ("dvc.yaml", "application/yaml"),
        ("x.csv.gz", "application/gzip"),
        ("x.tgz", "application/gzip"),
        ("unknown", "application/octet-stream"),
        ("parquet", "application/octet-stream"),
        ("a.parquet/", "application/vnd.apache.parquet"),
        ("", "application/octet-stream"),
    ],
)
def test_a_name_suggests_a_content_type(name: str, kind: str) -> None:
    assert content_type_of(name) == kind
