"""The files of the web UI, as they are served.

There is no build step: the browser gets the modules as they lie in ``app/``. Their addresses hold
a digest over all of them, so each may be kept for ever, and modules of two versions never meet.
"""

import gzip
import hashlib
import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from lakebed import __version__

PREFIX: Final = "/_ui"
"""What the addresses of the files begin with; no repository can have such a name."""

_INDEX: Final = "index.html"
_FIRST_MODULES: Final = ("main.js", "pages/objects.js")
_IMPORTED: Final = re.compile(r'from "(\.[^"]+)"')
_DIGEST_LENGTH: Final = 16
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file, and how it goes over the wire."""

    content_type: str
    plain: bytes
    packed: bytes
    """The same with gzip."""


@dataclass(frozen=True, slots=True)
class Assets:
    """All files of one version of the web UI."""

    digest: str
    by_name: dict[str, Asset]
    template: str
    """The one document, with places to fill."""

    def document(self, features: Iterable[str]) -> bytes:
        """Return the one document of the web UI.

        Args:
            features: The names of what this server has; the pages of others are not offered.
        """
        folder = f"{PREFIX}/{self.digest}"
        # Those that most visits need are named here: no browser has to read one to find the next.
        modules = "\n".join(
            f'<link rel="modulepreload" href="{folder}/{name}">'
            for name in sorted(self.needed_by(_FIRST_MODULES))
        )
        filled = self.template.replace("{{folder}}", folder).replace("{{modules}}", modules)
        filled = filled.replace("{{features}}", escape(" ".join(sorted(features))))
        return filled.replace("{{version}}", escape(__version__)).encode()

    def needed_by(self, names: Iterable[str]) -> set[str]:
        """Return some modules and all that they import, and so on; pages are loaded by need."""
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in found:
                continue
            found.add(name)
            folder = name.rpartition("/")[0]
            imported = _IMPORTED.findall(self.by_name[name].plain.decode())
            waiting += [posixpath.normpath(posixpath.join(folder, each)) for each in imported]
        return found


@cache
def load_assets() -> Assets:
    """Read the files, once in a process."""
    found = dict(sorted(_walk(files(__package__).joinpath("app"), "")))
    digest = hashlib.sha256()
    for name, data in found.items():
        digest.update(f"{name}\0{len(data)}\0".encode())
        digest.update(data)
    template = found.pop(_INDEX).decode()
    by_name = {}
    for name, data in found.items():
        content_type = _TYPES.get(name[name.rfind(".") :])
        if content_type is not None:
            by_name[name] = Asset(content_type, data, gzip.compress(data, 9, mtime=0))
    return Assets(digest.hexdigest()[:_DIGEST_LENGTH], by_name, template)


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _walk(each, f"{prefix}{each.name}/")
        else:
            yield prefix + each.name, each.read_bytes()
