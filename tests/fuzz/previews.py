"""Objects that are shown to people: Markdown, notebooks, tables of text."""

import io
import json
from typing import Any, Final

from hypothesis import strategies as st

from lakebed.block import ByteRange, ByteStream
from lakebed.block.ranges import Between
from lakebed.lake.errors import UnreadableTable
from lakebed.lake.preview.decoder_process import receive
from lakebed.lake.preview.decoding import Preview, Task, decode_here
from lakebed.lake.preview.tables import BoundedFile
from lakebed.lake.preview.texts import (
    _TAGS,
    MARKDOWN_LENGTH_MAX,
    decode,
    markdown_tree,
    notebook_cells,
)
from tests.fuzz.inputs import damaged, json_values, texts
from tests.fuzz.target import Targets, attempt

targets: Final = Targets()

MARKS: Final = [
    "# ", "*", "_", "**", "`", "```", "~~", "[", "](", ")", "![", "<", ">", "> ", "- ", "1. ",
    "|", "|---|", "\n", "\n\n", "    ", "\\", "&amp;", "javascript:", "https://x.y", "<script>",
    "text", "\u202e", "a",
]  # fmt: skip
LINES: Final = [b",", b"\n", b"\r\n", b'"', b"a", b"1", b"\t", b"{", b"}", b'"a":', b"[", b"]",
                b"null", b"\xff", b"1e999", b"\xef\xbb\xbf"]  # fmt: skip


def _check(nodes: list[Any]) -> None:
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            continue
        assert node["tag"] in _TAGS
        assert node.get("href", "https:").startswith(("http:", "https:", "mailto:"))
        waiting += node.get("children", [])


@targets.add(texts(MARKS, longest=MARKDOWN_LENGTH_MAX))
def markdown(text: str) -> None:
    """Whatever is written becomes a tree of known tags, whose links are harmless."""
    _check(markdown_tree(text))


@targets.add(json_values.map(lambda value: json.dumps({"cells": [value, {"source": value}]})))
def notebooks(text: str) -> None:
    """A notebook is shown or refused."""
    for cell in attempt((ValueError, RecursionError), notebook_cells, text) or []:
        tree = cell.get("tree", [])
        assert isinstance(tree, list)
        _check(tree)


@targets.add(st.binary(max_size=20))
def text_or_not(data: bytes) -> None:
    """Bytes are text or they are not."""
    decode(data)


@targets.add(st.tuples(st.sampled_from(["csv", "tsv", "jsonl"]), damaged(texts(LINES), LINES)))
def tables_of_text(given: tuple[str, bytes]) -> None:
    """A table of text has as many values in each row as it has columns, or is refused."""
    kind, data = given

    def read(wanted: ByteRange) -> ByteStream:
        assert isinstance(wanted, Between)
        piece = data[wanted.start : wanted.end]
        return ByteStream(iter([piece]), lambda: None, object_size=len(data))

    file = BoundedFile(read, len(data), bytes_max=1 << 20, check_time=lambda: None)
    task = Task(formats=[kind], limit=50)
    found = attempt(UnreadableTable, decode_here, task, [file])
    if isinstance(found, Preview):
        assert all(len(row) == len(found.columns) for row in found.rows)


@targets.add(st.binary(max_size=40))
def frames(data: bytes) -> None:
    """A frame is there or it is not."""
    attempt(EOFError, receive, io.BytesIO(data))
