"""Signed tokens (JWT) to principals. What a token says about how it is signed decides nothing."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import jwt

from antiphon.core.principal import ROLES, Principal, Role
from antiphon.errors import Unauthorized
from antiphon.governance.identity.key_sets import VerifyingKeys
from antiphon.governance.identity.static_keys import TOP_TIER
from antiphon.settings.identity import JwtSettings
from antiphon.store.revoked_tokens import one_token

_MAX_TOKEN_BYTES = 16 * 1024
_TENANT = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_NAME = 256


class Tokens:
    """Checks signature, time, issuer and audience, and reads who it is."""

    def __init__(self, settings: JwtSettings, keys: VerifyingKeys, tiers: Mapping[str, str]) -> None:
        """tiers: of the tenants that are configured."""
        self._settings = settings
        self._keys = keys
        self._tiers = tiers

    async def read(self, token: str) -> Principal:
        """Raises Unauthorized `invalid_token`, `token_expired`; AntiphonError `identity_unavailable`."""
        claims = await self._claims(token)
        user = claims.get(self._settings.user_claim)
        if not isinstance(user, str) or not 0 < len(user) <= _MAX_NAME:
            raise _refused(f"{self._settings.user_claim} does not name a user")
        name = user_id(user)
        tenant = self._tenant(claims) or name
        try:
            expires_at = float(int(claims["exp"])) + self._settings.leeway_s
        except (TypeError, ValueError, OverflowError) as error:
            raise _refused("exp is not a time") from error
        token_id = claims.get("jti") or hashlib.sha256(token.encode()).hexdigest()[:16]
        return Principal(
            name,
            tenant,
            self._role(claims),
            self._tiers.get(tenant, TOP_TIER),
            expires_at,
            one_token(str(token_id)),
            float(claims["iat"]) if "iat" in claims else None,
        )

    async def _claims(self, token: str) -> dict[str, Any]:
        settings = self._settings
        if len(token) > _MAX_TOKEN_BYTES:
            raise _refused("it is too long")
        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") != settings.algorithm:
                raise _refused(f"it is not signed with {settings.algorithm}")
            key = await self._keys.find(header.get("kid"))
            if key is None:
                raise _refused("the key it names is unknown")
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[settings.algorithm],
                audience=settings.audience,
                issuer=settings.issuer,
                leeway=settings.leeway_s,
                options={"require": ["exp", settings.user_claim], "verify_aud": settings.audience is not None},
            )
        except jwt.ExpiredSignatureError as error:
            raise Unauthorized(
                "This token has run out; get a new one.", code="token_expired", headers=_challenge("it expired")
            ) from error
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError) as error:
            raise _refused(_why(error)) from error
        return claims

    def _tenant(self, claims: Mapping[str, Any]) -> str | None:
        tenant = claims.get(self._settings.tenant_claim)
        if tenant is None:
            return None
        if not isinstance(tenant, str) or not _TENANT.fullmatch(tenant):
            raise _refused(f"{self._settings.tenant_claim} does not name a tenant")
        if not self._settings.any_tenant and tenant not in self._tiers:
            raise _refused("its tenant is not configured here")
        return tenant

    def _role(self, claims: Mapping[str, Any]) -> Role:
        """The highest it names. A text that is no role of ours gives no rights; a list may hold other things."""
        given = claims.get(self._settings.role_claim)
        if given is None:
            return self._settings.default_role
        named = given if isinstance(given, list) else [given]
        found = [role for role in ROLES if role in named]
        if not found and not isinstance(given, list):
            raise _refused(f"{self._settings.role_claim} names no role")
        return found[-1] if found else self._settings.default_role


def user_id(user: str) -> str:
    """The id of a user's principal. Encoded, no name can be written like another one, nor like a tenant."""
    return f"user:{quote(user, safe='@')}"


def is_token(bearer: str) -> bool:
    """Whether it is written like a signed token."""
    return bearer.count(".") == 2


_WHY: tuple[tuple[type[Exception], str], ...] = (
    (jwt.InvalidSignatureError, "its signature is not right"),
    (jwt.InvalidAudienceError, "it is for somebody else"),
    (jwt.InvalidIssuerError, "it is from somebody else"),
    (jwt.ImmatureSignatureError, "it does not count yet"),
    (jwt.MissingRequiredClaimError, "a claim is missing"),
)


def _why(error: Exception) -> str:
    """In words of ours: an exception may quote what is in the token."""
    return next((text for kind, text in _WHY if isinstance(error, kind)), "it cannot be read")


def _refused(why: str) -> Unauthorized:
    return Unauthorized(f"This token is not valid: {why}.", code="invalid_token", headers=_challenge(why))


def _challenge(why: str) -> dict[str, str]:
    """RFC 6750, 3."""
    return {"www-authenticate": f'Bearer error="invalid_token", error_description="{why}"'}
