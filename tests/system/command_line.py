"""The command line, serving the small application of these tests."""

from functools import partial

from lakebed.clients import cli
from lakebed.server.processes import supervisor

if __name__ == "__main__":
    supervisor.serve = partial(supervisor.serve, factory="tests.system.server_app:create")
    cli.main()
