"""Install the newest releases of the packages that pages tell people to install.

`make test-all PARTS=newest` then runs the blocks of these pages. A page that needs another version
names the version in its install line. The environment has no lock: failures are reported, and are
not failures of the run.
"""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.docs.console import ROOT, pages

ENVIRONMENT: Final = ROOT / ".envs/newest"
_INSTALL: Final = re.compile(r"\bpip install ([^-`\n#][^`\n#]*)")
_OF_TESTS: Final = (
    *("--editable", ".[postgres,s3,server,testing]"),
    *("minio", "psutil", "pytest-timeout", "pytest-xdist"),
)
_UV: Final = shutil.which("uv") or str(ROOT / ".uv/bin/uv")


def requirements(page: Path) -> set[str]:
    """Return the packages in the install lines of a page, without Lakebed itself."""
    words = [word for line in _INSTALL.findall(page.read_text()) for word in shlex.split(line)]
    return {word for word in words if not re.match(r"lakebed\b|[^a-z]", word)}


FOUND: Final = {page: found for page in pages() if (found := requirements(page))}
ARGUMENTS: Final = (
    *("-n", "0", "-m", "", "-k"),
    " or ".join(
        [
            *(str(page.relative_to(ROOT)) for page in FOUND),
            *("page_about_python", "every_block_of_the_page", "a_block_runs and python"),
        ]
    ),
    *("tests/docs/test_console.py", "tests/docs/test_tables.py"),
    *("tests/clients/library/test_page.py", "tests/compat/test_s3_docs.py"),
)
"""Arguments of pytest that select the tests of these pages."""


def main() -> int:
    """Make the environment anew; return the exit code of uv."""
    packages = sorted(set().union(*FOUND.values()))
    python = ENVIRONMENT / "bin/python"
    commands: tuple[tuple[str | Path, ...], ...] = (
        ("venv", "--quiet", "--clear", "--python", sys.executable, ENVIRONMENT),
        ("pip", "install", "--quiet", "--upgrade", "--python", python, *_OF_TESTS, *packages),
        ("pip", "list", "--python", python),
    )
    return next((code for each in commands if (code := subprocess.call([_UV, *each]))), 0)


if __name__ == "__main__":
    sys.exit(main())
