"""Options of transfers."""

from typing import Annotated

import typer

from lakebed.client.http import CONNECTIONS_MAX

ParallelismOption = Annotated[
    int,
    typer.Option("--parallelism", "-p", min=1, max=CONNECTIONS_MAX, help="So many at a time."),
]
