# ruff: noqa: INP001 (MkDocs loads it by its path)
"""Hooks of MkDocs: pages outside of docs/ are part of the site, and nothing is loaded from others.

In the site, a file has the path that it has in the repository, without ``docs/``.
"""

import posixpath
import re
from pathlib import Path
from typing import Any, Final

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[1]
ADDED: Final = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "design/*.md")
_ELSEWHERE: Final = {"README.md": "index.md", "design": "ARCHITECTURE.md"}
"""What has no page of its own, and the page that stands for it."""
_LINK: Final = re.compile(r"\]\((?!\w+:)([^)#\s]+)")
_FROM_ELSEWHERE: Final = re.compile(r'<(?:script|img|iframe)[^>]*src="?(?:https?:)?//[^>]*>')
_STYLE_FROM_ELSEWHERE: Final = re.compile(r'<link[^>]*href="?(?:https?:)?//[^>]*>')


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that lie outside of docs/."""
    for pattern in ADDED:
        for path in sorted(ROOT.glob(pattern)):
            name = str(path.relative_to(ROOT))
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Turn links between files of the repository into links between pages of the site."""
    added = page.file.generated_by is not None
    path = page.file.src_uri if added else f"docs/{page.file.src_uri}"

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), found[1]))
        in_site = _ELSEWHERE.get(target, target.removeprefix("docs/"))
        start = posixpath.dirname(path.removeprefix("docs/")) or "."
        return f"]({posixpath.relpath(in_site, start)}"

    return _LINK.sub(link, markdown)


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Refuse a page that loads something from another host."""
    found = _FROM_ELSEWHERE.search(output) or _STYLE_FROM_ELSEWHERE.search(output)
    if found:
        raise PluginError(f"{page.file.src_uri} loads something from another host: {found[0]}")
    return output
