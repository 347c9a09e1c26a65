"""Text, Markdown and notebooks.

Markdown becomes a tree of a few tags with texts as leaves. Embedded markup is text, so there is
nothing to sanitise, and a page that shows the tree parses no HTML.
"""

import json
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

# fmt: off
_TAGS: Final = frozenset({
    "p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "pre", "code", "em", "strong", "s",
    "blockquote", "hr", "br", "table", "thead", "tbody", "tr", "th", "td", "a",
})
# fmt: on
_SCHEMES: Final = frozenset({"http", "https", "mailto"})
_CELLS_MAX: Final = 200
MARKDOWN_LENGTH_MAX: Final = 24 << 10
"""Longer documents are shown as text: parsing 64 KiB can take more than a second."""
_OUTPUT_LENGTH_MAX: Final = 4000

Node = object
"""A text, or ``{"tag": …, "children": […]}``, with ``href`` for a link."""


def decode(data: bytes) -> str | None:
    """Decode UTF-8, ignoring a truncated last character; return None for binary data."""
    if b"\x00" in data:
        return None
    for cut in range(4):
        try:
            return data[: len(data) - cut].decode()
        except UnicodeDecodeError as error:
            if error.end < len(data) - 4:
                return None
    return None


def markdown_tree(text: str) -> list[Node]:
    """Parse Markdown into a tree of tags."""
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    return _children(SyntaxTreeNode(parser.parse(text)))


def _children(node: SyntaxTreeNode) -> list[Node]:
    return [each for child in node.children for each in _node(child)]


def _node(node: SyntaxTreeNode) -> list[Node]:
    leaf = _LEAVES.get(node.type)
    if leaf is not None:
        return [leaf(node)]
    children = _children(node) if node.children else []
    if node.tag not in _TAGS or node.hidden:
        return children
    return [{"tag": node.tag, "children": children}]


def _link(node: SyntaxTreeNode) -> Node:
    children = _children(node)
    href = str(node.attrs.get("href", ""))
    try:
        is_safe = urlsplit(href).scheme.lower() in _SCHEMES
    except ValueError:
        is_safe = False
    return (
        {"tag": "a", "href": href, "children": children}
        if is_safe
        else {"tag": "em", "children": children}
    )


def _code(node: SyntaxTreeNode) -> Node:
    return {"tag": "code", "children": [node.content]}


_LEAVES: Final[dict[str, Callable[[SyntaxTreeNode], Node]]] = {
    "text": lambda node: node.content,
    "softbreak": lambda _: "\n",
    "hardbreak": lambda _: {"tag": "br"},
    "code_inline": _code,
    "fence": lambda node: {"tag": "pre", "children": [_code(node)]},
    "code_block": lambda node: {"tag": "pre", "children": [_code(node)]},
    # External images are not loaded.
    "image": lambda node: f"[image: {node.content}]",
    "link": _link,
}


def notebook_cells(text: str) -> list[dict[str, object]]:
    """Return the cells of a Jupyter notebook, with their textual outputs.

    Raises `ValueError` if the text is not a notebook.
    """
    found = json.loads(text)
    if not isinstance(found, dict) or not isinstance(found.get("cells"), list):
        raise ValueError("it has no list of cells")  # noqa: TRY004 - invalid content
    cells, left = [], MARKDOWN_LENGTH_MAX
    for each in found["cells"][:_CELLS_MAX]:
        if isinstance(each, dict):
            source = _joined(each.get("source"))
            is_markdown = each.get("cell_type") == "markdown" and len(source) <= left
            left -= len(source) if is_markdown else 0
            cells.append(_cell(each, source, is_markdown=is_markdown))
    return cells


def _cell(cell: dict[str, object], source: str, *, is_markdown: bool) -> dict[str, object]:
    if is_markdown:
        return {"kind": "markdown", "tree": markdown_tree(source)}
    outputs = cell.get("outputs")
    texts = (
        [_output(each) for each in outputs if isinstance(each, dict)]
        if isinstance(outputs, list)
        else []
    )
    return {"kind": "code", "text": source, "output": "".join(texts)[:_OUTPUT_LENGTH_MAX]}


def _output(output: dict[str, object]) -> str:
    data = output.get("data")
    plain = data.get("text/plain") if isinstance(data, dict) else None
    return _joined(output.get("text") or plain or output.get("evalue"))


def _joined(text: object) -> str:
    """Join a text that notebooks store whole or as a list of lines."""
    if isinstance(text, list):
        return "".join(each for each in text if isinstance(each, str))
    return text if isinstance(text, str) else ""
