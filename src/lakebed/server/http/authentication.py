"""Who makes a request."""

import base64
import binascii
from typing import Final

import falcon

from lakebed.auth import AuthenticationFailed, Identity
from lakebed.server.http.browsers import check_cookie, check_password
from lakebed.server.services import Services

COOKIE: Final = "internal_auth_session"
"""The cookie in which a login leaves its token; clients know this name."""


def authenticate(services: Services, request: falcon.Request) -> Identity:
    """Return who makes a request, by a bearer token, a key pair or the cookie of a login.

    Raises:
        AuthenticationFailed: The request proves no user.
        ForeignPage: A page of others may have made a browser send it.
    """
    header = request.get_header("Authorization")
    if header is None:
        token = request.cookies.get(COOKIE)
        if token is None:
            raise AuthenticationFailed
        check_cookie(request.env)
        return services.auth.authenticate_token(token)
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return services.auth.authenticate_token(value.strip())
    if scheme.lower() != "basic":
        raise AuthenticationFailed
    check_password(request.env)
    try:
        pair = base64.b64decode(value.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        raise AuthenticationFailed from None
    access_key_id, _, secret = pair.partition(":")
    return services.auth.authenticate(access_key_id, secret)
