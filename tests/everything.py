"""Run every part of the tests; print the minutes of each, and what was not run and why.

``make test-all`` runs all parts, ``make test-all PARTS="tables power"`` some. A part that cannot
run here (power failures need root) is reported with the number of its tests. The program fails if
a part fails.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.docs import newest

ROOT: Final = Path(__file__).parents[1]
PYTEST: Final = (sys.executable, "-m", "pytest")
PARALLEL: Final = ("-n", "4", "--dist", "loadgroup", "--no-loadscope-reorder")
_COLLECTED: Final = re.compile(r"^(\d+)(?:/\d+)? tests? collected", re.MULTILINE)


def _nothing_is_missing() -> str | None:
    return None


def _not_root() -> str | None:
    return None if os.geteuid() == 0 else "only root may mount file systems"


@dataclass(frozen=True, slots=True)
class Part:
    """Tests that are run by one call of pytest."""

    name: str
    about: str
    arguments: Sequence[str]
    prepare: Sequence[Sequence[str]] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    missing: Callable[[], str | None] = _nothing_is_missing
    program: Sequence[str] = PYTEST
    upstream: bool = False
    """Whether failures are those of others' releases: reported, and not failures of the run."""

    def run(self) -> int:
        """Prepare and run the tests; return the exit code of the first program that fails."""
        for command in self.prepare:
            if code := subprocess.call(command, cwd=ROOT):
                return code
        environment = {**os.environ, **self.environment}
        return subprocess.call([*self.program, *self.arguments], cwd=ROOT, env=environment)

    def count(self) -> int:
        """Return the number of tests, without running any."""
        collected = subprocess.run(
            [*PYTEST, *self.arguments, "-n", "0", "--collect-only", "-q"],
            cwd=ROOT,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        found = _COLLECTED.search(collected.stdout)
        if found is None:
            raise SystemExit(f"pytest collects nothing of {self.name}:\n{collected.stdout}")
        return int(found[1])


def _make(*targets: str) -> Sequence[str]:
    return ("make", "--no-print-directory", *targets)


NOT_ELSEWHERE: Final = "not fetched and not tables and not airflow and not power and not wsgi"
LONG: Final = {"LAKEBED_TEST_LONG": "1", "HYPOTHESIS_PROFILE": "deep"}

PARTS: Final = (
    Part("test", "the tests of `make test`", PARALLEL),
    Part(
        "extended",
        "databases, clouds, S3 clients, kills, consoles and pages that `make test` leaves out",
        (*PARALLEL, "-m", f"extended and {NOT_ELSEWHERE}", "--timeout", "900"),
        prepare=[
            _make(
                *(
                    f".envs/{name}"
                    for name in ("clients/bin/mc", "clients/bin/restic", "deploy/bin/helm")
                )
            )
        ],
    ),
    Part(
        "fetched",
        "databases that no package of pip or npm brings",
        (*PARALLEL, "-m", "fetched", "--timeout", "900"),
        prepare=[(sys.executable, "-m", "lakebed.testing.servers.fetch_databases")],
    ),
    Part(
        "tables",
        "Spark with Delta Lake and Iceberg: docs/tables.md, many appenders",
        ("-m", "tables", "--timeout", "1800", "tests/docs", "tests/system"),
        prepare=[_make(".envs/tables/.installed")],
    ),
    Part(
        "airflow",
        "hooks against Airflow itself",
        ("-m", "airflow"),
        prepare=[_make(".envs/airflow/.installed")],
    ),
    Part(
        "wsgi",
        "other WSGI servers",
        ("-m", "wsgi", "tests/httpd", "tests/system/test_gunicorn.py"),
        prepare=[_make(".envs/wsgi/.installed")],
    ),
    Part(
        "power",
        "power failures of local storage, on file systems in files",
        ("-m", "power", "--timeout", "600", "tests/system/test_power_failure.py"),
        missing=_not_root,
    ),
    Part(
        "rounds",
        "simulated histories and properties, with more seeds and examples",
        (*PARALLEL, "--timeout", "3600", "tests/simulation", "tests/kv", "tests/formats"),
        environment=LONG,
    ),
    Part(
        "lowest",
        "the fast tests, with the oldest libraries",
        (),
        prepare=[_make(".envs/lowest/.installed")],
        program=_make("test-fast", "BIN=.envs/lowest/bin"),
    ),
    Part(
        "newest",
        "pages that name packages to install, with the newest releases of these packages",
        newest.ARGUMENTS,
        prepare=[(sys.executable, "-m", "tests.docs.newest")],
        environment={
            "LAKEBED_TEST_TABLES": str(newest.ENVIRONMENT),
            "PATH": f"{newest.ENVIRONMENT}/bin:{os.environ['PATH']}",
        },
        program=(f"{newest.ENVIRONMENT}/bin/python", "-m", "pytest"),
        upstream=True,
    ),
)


def main(names: Sequence[str]) -> int:
    """Run the parts of these names, or all; return 1 if one failed."""
    unknown = set(names) - {part.name for part in PARTS}
    if unknown:
        known = ", ".join(part.name for part in PARTS)
        raise SystemExit(f"no part is called {', '.join(sorted(unknown))}; there are {known}")
    lines, failed = [], False
    for part in PARTS:
        if names and part.name not in names:
            lines.append(f"{part.name:10}  not asked for")
            continue
        if (reason := part.missing()) is not None:
            lines.append(f"{part.name:10}  not run   {part.count()} tests: {reason}")
            continue
        print(f"== {part.name}: {part.about}", flush=True)
        begun = time.monotonic()
        code = part.run()
        minutes = (time.monotonic() - begun) / 60
        reported = part.upstream and code in {1, 2}
        failed = failed or (code != 0 and not reported)
        outcome = "failed upstream (see above)" if reported else "FAILED" if code else "passed"
        lines.append(f"{part.name:10}  {minutes:5.1f} min  {outcome}")
    print("\n" + "\n".join(lines))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
