"""The operations of the REST API: one module per resource, and the table of all."""

from typing import Final

from lakebed.server.api.operations import (
    actions,
    auth,
    commits,
    config,
    dumps,
    gc,
    imports,
    metadata,
    not_implemented,
    objects,
    presigned_parts,
    pulls,
    purges,
    refs,
    repositories,
    staging,
)
from lakebed.server.api.routes import Route

ROUTES: Final[tuple[Route, ...]] = (
    *config.routes,
    *repositories.routes,
    *dumps.routes,
    *refs.routes,
    *commits.routes,
    *objects.routes,
    *staging.routes,
    *presigned_parts.routes,
    *metadata.routes,
    *gc.routes,
    *purges.routes,
    *imports.routes,
    *actions.routes,
    *pulls.routes,
    *auth.routes,
    *not_implemented.routes,
)

__all__ = ["ROUTES"]
