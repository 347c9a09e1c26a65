"""Authentication of HTTP requests."""

import binascii
from contextlib import suppress
from typing import Final
from wsgiref.types import WSGIEnvironment

import falcon

from lakebed.auth import AuthenticationFailed, AuthService, Identity
from lakebed.base.actor import Actor, EntryPoint
from lakebed.server.http.browsers import BROWSER_HEADERS, check_cookie, check_password
from lakebed.server.http.request import RequestRecord

COOKIE: Final = "internal_auth_session"
"""The cookie with the token of a login; clients know this name."""

IDENTITY: Final = "lakebed.identity"
"""WSGI key with the identity of an in-process call. Requests from outside cannot set this key:
their headers have keys of the form ``HTTP_…``."""

HOOK_DEPTH: Final = "lakebed.hook_depth"
"""WSGI key beside `IDENTITY`: the nesting depth of hooks that call the API."""


def authenticate(auth: AuthService, environ: WSGIEnvironment, *, client: str) -> Identity:
    """Return the identity of a request: by bearer token, key pair or login cookie.

    Raises:
        AuthenticationFailed: The credentials are missing or invalid.
        ForeignPage: A page of another origin may have made a browser send the request.
        TooManyLogins: The client's address sent too many wrong secrets.
    """
    inner: Identity | None = environ.get(IDENTITY)
    if inner is not None:
        return inner
    scheme, _, value = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() != "basic":
        token = token_of(environ)
        if token is None:
            raise AuthenticationFailed
        return auth.authenticate_token(token)
    if not environ.keys().isdisjoint(BROWSER_HEADERS):
        check_password(environ)
    try:
        pair = binascii.a2b_base64(value.strip(), strict_mode=True).decode()
    except ValueError:  # of the coding, or of UTF-8
        raise AuthenticationFailed from None
    access_key_id, _, secret = pair.partition(":")
    return auth.authenticate(access_key_id, secret, client=client)


def actor_of(
    auth: AuthService,
    environ: WSGIEnvironment,
    identity: Identity | None,
    record: RequestRecord,
    *,
    entry_point: EntryPoint,
    force: bool = False,
    skips_hooks: bool = False,
) -> Actor:
    """Return the actor of a request; `identity` is None if the operation is open to anyone."""
    if identity is None:
        return Actor(address=record.client, request_id=record.request_id, entry_point=entry_point)
    depth: int = environ.get(HOOK_DEPTH, 0)
    return Actor(
        user=identity.user_id,
        unique_id=identity.unique_id,
        groups=auth.groups_of((identity.user_id, identity.unique_id)),
        access_key_id=identity.access_key_id or "",
        address=record.client,
        request_id=record.request_id,
        entry_point=EntryPoint.HOOK if depth else entry_point,
        force=force,
        skips_hooks=skips_hooks,
        hook_depth=depth,
    )


def token_of(environ: WSGIEnvironment) -> str | None:
    """Return the token of a request; the cookie counts only without an ``Authorization`` header."""
    header: str | None = environ.get("HTTP_AUTHORIZATION")
    if header is None:
        token = falcon.Request(environ).cookies.get(COOKIE)
        if token is not None:
            check_cookie(environ)
        return token
    scheme, _, value = header.partition(" ")
    return value.strip() if scheme.lower() == "bearer" else None


def log_out(auth: AuthService, environ: WSGIEnvironment) -> None:
    """Revoke the token of a request, if it has a valid one.

    Raises:
        ForeignPage: A page of another origin may have made a browser send the request.
        OutcomeUnknown: The token may still be valid.
    """
    token = token_of(environ)
    if token is not None:
        with suppress(AuthenticationFailed):
            auth.logout(token)
