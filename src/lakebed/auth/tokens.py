"""Tokens: signed login claims (JWT), valid for seven days.

A token contains the user, the user's unique id, and the access key of the login. The service
accepts a token only while the user has this unique id, the access key exists, and no logout has
ended the token. Times are compared with the clock of the `Runtime`.
"""

from dataclasses import dataclass
from typing import Final, NewType

import jwt

from lakebed.auth.errors import AuthenticationFailed
from lakebed.auth.model import AccessKeyID, UserID
from lakebed.auth.secrets import ServerKeys
from lakebed.base.runtime import Runtime, UniqueID

Token = NewType("Token", str)
"""A signed JWT."""

AUDIENCE: Final = "login"
ISSUER: Final = "auth"
UNIQUE_ID_CLAIM: Final = "uid"
ACCESS_KEY_CLAIM: Final = "key"
LIFE_SECONDS: Final = 7 * 24 * 3600

_SIGNED_WITH: Final = "HS256"
_ACCEPTED: Final = ["HS256", "HS384", "HS512"]
_BYTES_MAX: Final = 8192

NOT_OURS: Final = "the token has an invalid signature, or has expired"
"""Reason for the log."""


@dataclass(frozen=True, slots=True)
class TokenClaims:
    """Claims of a token."""

    user_id: UserID
    unique_id: UniqueID
    access_key_id: AccessKeyID
    token_id: str
    """Random id of the token."""
    expires_at: int
    """Seconds since 1970."""


class Tokens:
    """Issuer and verifier of tokens."""

    def __init__(self, keys: ServerKeys, runtime: Runtime) -> None:
        self._key = keys.signing
        self._runtime = runtime

    def issue(
        self, user_id: UserID, unique_id: UniqueID, access_key_id: AccessKeyID
    ) -> tuple[Token, int]:
        """Return a token for a user, and its expiry time in seconds since 1970."""
        now = int(self._runtime.now())
        expires_at = now + LIFE_SECONDS
        claims = {
            "aud": AUDIENCE,
            "iss": ISSUER,
            "sub": user_id,
            UNIQUE_ID_CLAIM: unique_id,
            ACCESS_KEY_CLAIM: access_key_id,
            "iat": now,
            "exp": expires_at,
            "jti": self._runtime.random_bytes(16).hex(),
        }
        return Token(jwt.encode(claims, self._key, algorithm=_SIGNED_WITH)), expires_at

    def verify(self, token: str) -> TokenClaims:
        """Return the claims of a token that this installation signed and that has not expired."""
        if len(token) > _BYTES_MAX:
            raise AuthenticationFailed(NOT_OURS)
        try:
            claims = jwt.decode(
                token,
                self._key,
                algorithms=_ACCEPTED,
                audience=AUDIENCE,
                issuer=ISSUER,
                # These times are compared with the clock of the runtime below.
                options={
                    "require": ["exp", "aud", "iss", *_TEXTS],
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
            expires_at = int(claims["exp"])
            not_before = int(claims.get("nbf", 0))
        # Clients may send arbitrary strings as tokens.
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
            raise AuthenticationFailed(NOT_OURS) from None
        texts = [claims[name] for name in _TEXTS]
        known = all(isinstance(text, str) for text in texts)
        if not known or not not_before <= self._runtime.now() < expires_at:
            raise AuthenticationFailed(NOT_OURS)
        user_id, unique_id, access_key_id, token_id = texts
        return TokenClaims(
            UserID(user_id), UniqueID(unique_id), AccessKeyID(access_key_id), token_id, expires_at
        )


_TEXTS: Final = ("sub", UNIQUE_ID_CLAIM, ACCESS_KEY_CLAIM, "jti")
