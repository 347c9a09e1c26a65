"""A real browser, for what only a browser does: cookies, origins, scripts of pages."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_PROGRAM: Final = Path(__file__).with_name("browser.mjs")


@dataclass(frozen=True, slots=True)
class Visit:
    """How a visit ended."""

    ended: str
    """``done``: a script of the page said so; ``loaded``: none did; ``download``."""
    title: str
    text: str


class Browser:
    """A Chromium that waits to be told what to open."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.version: str = self._answer()["version"]

    def visit(
        self,
        url: str,
        *,
        cookie: dict[str, Any] | None = None,
        pages: dict[str, str] | None = None,
        without: str | None = None,
    ) -> Visit:
        """Open a URL in a profile of its own; see `browser.mjs`."""
        assert self._process.stdin is not None
        asked = {"url": url, "cookie": cookie, "pages": pages, "without": without}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return Visit(**self._answer())

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line or '{"error": "the browser has ended"}')
        assert "error" not in answer, answer
        return answer


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser, and end it."""
    node = shutil.which("node")
    assert node is not None, "the tests with a browser need Node"
    process = subprocess.Popen(
        [node, str(_PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Browser(process)
    finally:
        process.communicate(timeout=60)
