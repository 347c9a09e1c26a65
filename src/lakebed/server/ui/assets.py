"""The files of the web UI.

Without a build step: the browser gets the modules of ``app/`` unchanged. Their URLs contain a
digest of all files, so they can be cached forever, and modules of two versions never mix. Large
third-party files are stored compressed, as ``NAME.gz``.
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
"""The URL prefix of the files; no repository can have this name."""

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
    """A file of the web UI."""

    content_type: str
    packed: bytes

    @property
    def plain(self) -> bytes:
        """Its bytes."""
        return gzip.decompress(self.packed)


@dataclass(frozen=True, slots=True)
class Assets:
    """All files of one version of the web UI."""

    digest: str
    by_name: dict[str, Asset]
    templates: dict[str, str]
    """The documents, with placeholders."""

    def document(self, name: str, features: Iterable[str] = ()) -> bytes:
        """Return a document, `INDEX` or `API`; pages of features not in `features` are hidden."""
        folder = f"{PREFIX}/{self.digest}"
        # Preload the modules of most visits: no chain of requests to discover imports.
        modules = "\n".join(
            f'<link rel="modulepreload" href="{folder}/{each}">'
            for each in sorted(self.needed_by(_FIRST_MODULES))
        )
        filled = self.templates[name].replace("{{folder}}", folder).replace("{{modules}}", modules)
        filled = filled.replace("{{features}}", escape(" ".join(sorted(features))))
        return filled.replace("{{version}}", escape(__version__)).encode()

    def needed_by(self, names: Iterable[str]) -> set[str]:
        """Return modules and their transitive static imports; pages are imported dynamically."""
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
    """Read the files, once per process."""
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
