"""The files of the web UI, as they are served.

There is no build step: the browser gets the modules as they lie in ``app/``. Their addresses hold
a digest over all of them, so each may be kept for ever, and modules of two versions never meet.
Large files of others lie there packed, as ``NAME.gz``.
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

INDEX: Final = "index.html"
API: Final = "api.html"
_FIRST_MODULES: Final = ("main.js", "pages/objects.js")
_IMPORTED: Final = re.compile(r'from "(\.[^"]+)"')
_DIGEST_LENGTH: Final = 16
_PACKED: Final = ".gz"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file, and how it goes over the wire."""

    content_type: str
    packed: bytes
    """With gzip, as nearly everybody takes it."""

    @property
    def plain(self) -> bytes:
        """As it is."""
        return gzip.decompress(self.packed)


@dataclass(frozen=True, slots=True)
class Assets:
    """All files of one version of the web UI."""

    digest: str
    by_name: dict[str, Asset]
    templates: dict[str, str]
    """The documents, with places to fill."""

    def document(self, name: str, features: Iterable[str] = ()) -> bytes:
        """Return a document: `INDEX`, the one of the web UI, or `API`.

        Args:
            name: Its file.
            features: The names of what this server has; the pages of others are not offered.
        """
        folder = f"{PREFIX}/{self.digest}"
        # Those that most visits need are named here: no browser has to read one to find the next.
        modules = "\n".join(
            f'<link rel="modulepreload" href="{folder}/{each}">'
            for each in sorted(self.needed_by(_FIRST_MODULES))
        )
        filled = self.templates[name].replace("{{folder}}", folder).replace("{{modules}}", modules)
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
    templates = {name: found.pop(name).decode() for name in (INDEX, API)}
    by_name = {}
    for name, data in found.items():
        served = name.removesuffix(_PACKED)
        content_type = _TYPES.get(served[served.rfind(".") :])
        if content_type is not None:
            packed = data if served != name else gzip.compress(data, 9, mtime=0)
            by_name[served] = Asset(content_type, packed)
    return Assets(digest.hexdigest()[:_DIGEST_LENGTH], by_name, templates)


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _walk(each, f"{prefix}{each.name}/")
        else:
            yield prefix + each.name, each.read_bytes()
