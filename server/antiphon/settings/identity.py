"""Settings of who is let in: `[jwt]` and `[identity]`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, model_validator

from antiphon.settings.table import Table

MIN_SECRET_BYTES = 32
"""RFC 7518, 3.2: a key of HS256 is at least as long as its hash."""


class JwtSettings(Table):
    """Signed tokens of an identity provider. Absent: none is accepted."""

    algorithm: Literal["HS256", "RS256", "ES256"] = Field(
        "RS256",
        description="The only one that is accepted, whatever a token says.",
        examples=[
            '[jwt]\nalgorithm = "RS256"\njwks_url = "https://login.example.com/.well-known/jwks.json"\n'
            'issuer = "https://login.example.com/"\naudience = "antiphon"'
        ],
    )
    secret: SecretStr | None = Field(None, description="Of `HS256`, at least 32 bytes; prefer `secret_env`.")
    secret_env: str | None = Field(None, description="The variable that holds it.")
    jwks_file: Path | None = Field(
        None,
        description="JSON Web Key Set of the other algorithms, seen from this file's folder; read again when "
        "it changes.",
    )
    jwks_url: str | None = Field(
        None, description="The same at an address; asked again for keys it does not have."
    )
    jwks_cache_s: float = Field(600, gt=0, description="How long keys from `jwks_url` are believed.")
    issuer: str | None = Field(None, description="What `iss` has to be. Needed with `jwks_url`.")
    audience: str | None = Field(None, description="What has to be in `aud`. Needed with `jwks_url`.")
    leeway_s: float = Field(10, ge=0, le=300, description="How far the clocks of issuer and server may differ.")
    user_claim: str = Field("sub", description="Claim that names the user.")
    tenant_claim: str = Field(
        "tenant",
        description="Claim that names the tenant. A user without one has a scope of its own, `user:<name>`.",
    )
    role_claim: str = Field("role", description="Claim with the role, or a list with one of them.")
    default_role: Literal["viewer", "driver", "operator", "admin"] = Field(
        "driver", description="Of a token that names none."
    )
    any_tenant: bool = Field(True, description="False: only tenants that are configured here, or no tenant.")

    @model_validator(mode="after")
    def _check(self) -> JwtSettings:
        secrets = [name for name in ("secret", "secret_env") if getattr(self, name) is not None]
        sets = [name for name in ("jwks_file", "jwks_url") if getattr(self, name) is not None]
        wanted, unwanted = (secrets, sets) if self.algorithm == "HS256" else (sets, secrets)
        if unwanted:
            raise ValueError(f"{unwanted[0]} does not belong to algorithm {self.algorithm}")
        if len(wanted) != 1:
            names = "secret or secret_env" if self.algorithm == "HS256" else "jwks_file or jwks_url"
            raise ValueError(f"algorithm {self.algorithm} needs one of {names}")
        if self.secret is not None and len(self.secret.get_secret_value().encode()) < MIN_SECRET_BYTES:
            raise ValueError(f"the secret is shorter than {MIN_SECRET_BYTES} bytes")
        if self.jwks_url is not None:
            if not self.jwks_url.startswith(("https://", "http://")):
                raise ValueError("jwks_url must begin with https:// or http://")
            if self.issuer is None or self.audience is None:
                raise ValueError("jwks_url needs issuer and audience: its keys sign for other services too")
        return self


class IdentitySettings(Table):
    """How callers show who they are."""

    auth_within_s: float = Field(
        10, gt=0, le=120, description="A socket without credentials has so long to send them in its first frame."
    )
    max_unauthenticated: int = Field(
        1000, ge=0, description="Sockets of this node that have not done so yet; 0 accepts none."
    )
    ticket_s: float = Field(30, gt=0, le=600, description="How long a browser's ticket can be used, once.")
    expiry_notice_s: float = Field(
        60, ge=0, description="So long before a token runs out its sockets are told to send a new one."
    )
    reread_s: float = Field(
        2, ge=0.1, le=4, description="How often it is read which keys were revoked: until then they still count."
    )
    stale_s: float = Field(
        60, ge=1, description="Without an answer of the store, keys that were seen before count so long."
    )
