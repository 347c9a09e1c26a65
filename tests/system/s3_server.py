"""A program that runs a server with an administrator and a repository, for S3 clients."""

import sys
from pathlib import Path

from lakebed.base.without_pandas import block_pandas

ACCESS_KEY = "AKIAJADMIN"
SECRET_KEY = "admin-secret"
REPOSITORY = "lake"


def main(file: str) -> None:
    block_pandas()
    # All tests import the names above.
    from lakebed.auth import KeyPair
    from lakebed.lake.places import parse_namespace
    from lakebed.server.app import open_services
    from lakebed.server.config_files import load
    from lakebed.server.processes.supervisor import serve

    settings = load(Path(file), environment={})
    services = open_services(settings)
    if not services.auth.is_set_up():
        services.auth.setup(
            "admin", KeyPair(access_key_id=ACCESS_KEY, secret_access_key=SECRET_KEY)
        )
        services.catalog.repositories.create(
            REPOSITORY, parse_namespace(f"local://lakes/{REPOSITORY}"), committer="admin"
        )
    services.close()
    serve(settings, on_ready=_print_ready)


def _print_ready(endpoint: str) -> None:
    sys.stdout.write(f"ready {endpoint}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
