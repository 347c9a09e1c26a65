"""The command line, serving the small application of these tests."""

from functools import partial

from lakebed import cli
from lakebed.server import process

if __name__ == "__main__":
    process.serve = partial(process.serve, factory="tests.system.server_app:create")
    cli.main()
