"""Read the prose of the project: docstrings, comments, messages, pages."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "src" / "lakebed"

_POINTER_WORDS: Final = re.compile(
    r"\b(what|who|whom|whoever|whatever|whichever|those|that|it|they|one|ones|others|nobody|nothing"
    r"|some|there)\b",
    re.IGNORECASE,
)
_CODE: Final = re.compile(r"`[^`]*`")
_LOG_CALLS: Final = frozenset({"debug", "info", "warning", "error", "exception", "critical"})


@dataclass(slots=True)
class Share:
    """Pointer words among all words of a text."""

    words: int = 0
    pointers: int = 0

    def add(self, text: str) -> None:
        """Count the words of a text; code between backticks is left out."""
        prose = _CODE.sub("", text)
        self.words += len(prose.split())
        self.pointers += len(_POINTER_WORDS.findall(prose))

    @property
    def percent(self) -> float:
        """The share of pointer words, or 0 of an empty text."""
        return 100 * self.pointers / max(self.words, 1)


def share_of(*texts: str) -> Share:
    """Return the share of pointer words in texts."""
    share = Share()
    for text in texts:
        share.add(text)
    return share


def python_files(folder: Path = SOURCE) -> Iterator[Path]:
    """Yield the Python files below a folder, without generated code."""
    for path in sorted(folder.rglob("*.py")):
        if not path.name.endswith("_pb2.py"):
            yield path


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of each docstring, those of attributes included."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for each in body if isinstance(body, list) else []:
            match each:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield each.lineno, text


_PYTHON_COMMENT: Final = re.compile(r"(?:^ *|  )# (?!noqa|type:)(.+)$", re.MULTILINE)


def comments(source: str) -> Iterator[str]:
    """Yield the comments of a Python file, without directives to linters."""
    yield from _PYTHON_COMMENT.findall(source)


def messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of each message of an exception or of a log call.

    A value inside a message counts as one word.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Raise(exc=ast.Call(args=[first, *_])):
                text = _text(first)
            case ast.Call(func=ast.Attribute(attr=level), args=[first, *_]) if level in _LOG_CALLS:
                text = _text(first)
            case _:
                continue
        if text is not None and " " in text.strip():
            yield node.lineno, text


def _text(node: ast.expr) -> str | None:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) or "VALUE" for part in parts)
        case _:
            return None


_COMMENT: Final = re.compile(r"/\*.*?\*/|^\s*//[^\n]*$", re.DOTALL | re.MULTILINE)
_QUOTED: Final = re.compile(r'"([^"\\\n]*)"')
_MARKUP: Final = re.compile(r">([^<>`]+)<")
_VALUE: Final = re.compile(r"\$\{[^{}]*\}")


def texts_of_page(source: str) -> Iterator[str]:
    """Yield the texts of three or more words in the JavaScript of a page of the web UI.

    A value inside a text counts as one word.
    """
    plain = _VALUE.sub(" VALUE ", _COMMENT.sub("", source))
    for found in (*_QUOTED.finditer(plain), *_MARKUP.finditer(plain)):
        if len(re.findall(r"\b[A-Za-z]{2,}\b", found[1])) > 2 and not re.search(
            r"[={}$]|^\.", found[1]
        ):
            yield found[1]


_LABEL: Final = re.compile(
    r"""\b(?:title|label|aria-label|why)=(?:"([^"]*)"|\$\{`([^`]*)`\})|<(?:h[1-3]|button)\b[^<>]*>([^<>]*)</"""
)
_NOTE: Final = re.compile(r"""\b(?:note|hint)=(?:"([^"]*)"|\$\{`([^`]*)`\})""")
_PARAGRAPH: Final = re.compile(r"<p\b(?:[^<>{}]|\$\{[^{}]*\})*>(.*?)</p>", re.DOTALL)
_TAG: Final = re.compile(r"<[^<>]*>")


def labels_of_page(source: str) -> Iterator[str]:
    """Yield the labels in the JavaScript of a page: titles, buttons, headings, reasons."""
    for found in _LABEL.finditer(_COMMENT.sub("", source)):
        yield from _several(next(filter(None, found.groups()), ""))


def sentences_of_page(source: str) -> Iterator[str]:
    """Yield the paragraphs, notes and hints in the JavaScript of a page."""
    plain = _COMMENT.sub("", source)
    for found in _NOTE.finditer(plain):
        yield from _several(found[1] or found[2])
    for found in _PARAGRAPH.finditer(plain):
        yield from _several(found[1])


def _several(text: str) -> Iterator[str]:
    """Yield a text of three or more words with its values as words, without markup."""
    while (plain := _VALUE.sub("VALUE", text)) != text:
        text = plain
    text = " ".join(_TAG.sub("", text).split())
    if len(text.split()) > 2:
        yield text


def helps(group: Any, *words: str) -> Iterator[tuple[tuple[str, ...], str, list[str]]]:
    """Yield the help of each command of a group: its words, its text, and those of its options."""
    yield words, group.help or "", [each.help for each in group.params if getattr(each, "help", 0)]
    for name, command in getattr(group, "commands", {}).items():
        yield from helps(command, *words, name)


def prose_of_page(source: str) -> str:
    """Return the text of a page in Markdown without code blocks, tables and code."""
    prose = re.sub(r"```.*?```", "", source, flags=re.DOTALL)
    return re.sub(r"^\|.*$|`[^`\n]*`", "", prose, flags=re.MULTILINE)
