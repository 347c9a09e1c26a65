"""Operations of the lakeFS API that Lakebed does not have: each answers 501."""

from typing import Final

from lakebed.server.api.request import ApiRequest
from lakebed.server.api.routes import Access, Reply, Route
from lakebed.server.http.errors import NotImplementedHere
from lakebed.wire.auth import PrincipalsAPI

_OPERATIONS: Final = (
    *(
        (each.endpoint.operation, each.endpoint.method, each.endpoint.path)
        for each in (
            PrincipalsAPI.attach,
            PrincipalsAPI.detach,
            PrincipalsAPI.list,
            PrincipalsAPI.get,
        )
    ),
    ("externalPrincipalLogin", "POST", "/auth/external/principal/login"),
    ("stsLogin", "POST", "/sts/login"),
    ("oauthCallback", "GET", "/oidc/callback"),
    # This request lacks fields that a commit's id covers; restoring a dump has them all.
    ("CreateCommitRecord", "POST", "/repositories/{repository}/commits"),
)


def _refuse(request: ApiRequest, **_parts: str) -> Reply:
    """Not implemented."""
    method = request.environ["REQUEST_METHOD"]
    raise NotImplementedHere(f"{method} {request.template} is not implemented")


routes = [
    Route(
        operation=operation,
        tag="not implemented",
        method=method,
        path=path,
        handler=_refuse,
        needs=Access.SIGNED_IN,
        status=501,
    )
    for operation, method, path in _OPERATIONS
]
