"""Reading untrusted YAML: plain values of YAML 1.2, limited in size and depth.

PyYAML's own loaders follow YAML 1.1, where ``on`` and ``yes`` are booleans and ``1:30`` is a
number. Therefore only its parser is used, and values are built here from the parser's events.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import yaml

DEPTH_MAX: Final = 40
NODES_MAX: Final = 20_000
"""Maximum number of values; an aliased value counts at each use."""

_LOADER: Final = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS: Final = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,18}|0o[0-7]{1,18}|0x[0-9a-fA-F]{1,15}")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?")
_TEXT_TAGS: Final = frozenset({"!", "tag:yaml.org,2002:str"})


class InvalidYaml(ValueError):
    """Invalid YAML, or a document over a limit; the message gives reason and line."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar, as written."""

    text: str
    is_plain: bool
    """Neither quoted nor a block, so that the text may mean a number or null."""

    @property
    def value(self) -> str | float | bool | None:
        """The value by the rules of YAML 1.2."""
        if not self.is_plain:
            return self.text
        if self.text in _NULLS:
            return None
        if self.text in _BOOLEANS:
            return _BOOLEANS[self.text]
        if _INTEGER.fullmatch(self.text):
            return int(self.text, 0 if self.text[:2] in {"0o", "0x"} else 10)
        return float(self.text) if _FLOAT.fullmatch(self.text) else self.text


Node = Scalar | list["Node"] | dict[str, "Node"]
"""A scalar, a list of nodes, or a mapping of names to nodes."""


def read_yaml(content: bytes) -> Node:
    """Return the only document of a file.

    Raises `InvalidYaml` for invalid YAML or UTF-8, over a limit, or with a duplicate key.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise InvalidYaml("the file is not UTF-8") from error
    try:
        return _Composer(yaml.parse(text, Loader=_LOADER)).document()
    except yaml.YAMLError as error:
        position = getattr(error, "problem_mark", None)
        where = f"line {position.line + 1}: " if position else ""
        problem = getattr(error, "problem", None) or getattr(error, "reason", None)
        raise InvalidYaml(f"{where}invalid YAML ({problem or 'unreadable'})") from None


def plain(node: Node) -> object:
    """Convert a node to Python values."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, list):
        return [plain(each) for each in node]
    return {name: plain(each) for name, each in node.items()}


class _Composer:
    """Builds nodes from parser events."""

    def __init__(self, events: Iterator[yaml.Event]) -> None:
        self._events = events
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._count = 0

    def document(self) -> Node:
        node: Node = Scalar("", is_plain=True)
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _at(event, "more than one document")
                node = self._node(next(self._events), 0)
        return node

    def _node(self, event: yaml.Event, depth: int) -> Node:
        if depth > DEPTH_MAX:
            raise _at(event, f"values are nested more than {DEPTH_MAX} deep")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        before = self._count
        self._add(1, event)
        node: Node
        if isinstance(event, yaml.ScalarEvent):
            node = self._scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = list(self._items(depth))
        else:
            node = self._mapping(depth)
        if anchor := getattr(event, "anchor", None):
            self._anchors[anchor] = node, self._count - before
        return node

    def _alias(self, event: yaml.AliasEvent) -> Node:
        # Anchors are registered once their value is complete, so cycles are impossible.
        if event.anchor not in self._anchors:
            raise _at(event, f"undefined alias *{event.anchor}")
        node, count = self._anchors[event.anchor]
        self._add(count, event)
        return node

    def _scalar(self, event: yaml.ScalarEvent) -> Scalar:
        if event.tag is not None and event.tag not in _TEXT_TAGS:
            raise _at(event, f"the tag {event.tag} is not supported")
        return Scalar(event.value, is_plain=event.implicit[0])

    def _items(self, depth: int) -> Iterator[Node]:
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            yield self._node(event, depth + 1)

    def _mapping(self, depth: int) -> dict[str, Node]:
        found: dict[str, Node] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._node(event, depth + 1)
            if not isinstance(key, Scalar):
                raise _at(event, "a key must be a scalar")
            if key.text in found:
                raise _at(event, f"duplicate key {key.text!r}")
            found[key.text] = self._node(next(self._events), depth + 1)
        return found

    def _add(self, count: int, event: yaml.Event) -> None:
        self._count += count
        if self._count > NODES_MAX:
            raise _at(event, f"more than {NODES_MAX} values")


def _at(event: yaml.Event, problem: str) -> InvalidYaml:
    assert event.start_mark is not None
    return InvalidYaml(f"line {event.start_mark.line + 1}: {problem}")
