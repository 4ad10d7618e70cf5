"""Tokens as an identity provider would sign them, keys to check them with, and a clock that a test turns."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import jwt
import orjson
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

SECRET = "a secret of more than thirty-two bytes"
OTHER_SECRET = "another secret of more than 32 bytes"
ISSUER, AUDIENCE = "https://login.example/", "antiphon"

RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def claims(**fields: Any) -> dict[str, Any]:
    """Of anna at acme, for an hour; None leaves a claim out."""
    now = int(time.time())
    given = {"sub": "anna", "tenant": "acme", "role": "driver", "iat": now, "exp": now + 3600, **fields}
    return {name: value for name, value in given.items() if value is not None}


def signed(secret: str = SECRET, **fields: Any) -> str:
    """A token of HS256."""
    return jwt.encode(claims(**fields), secret, algorithm="HS256")


def signed_by(key: Any, algorithm: str, kid: str | None = "one", **fields: Any) -> str:
    """A token with the issuer and audience of the tests."""
    headers = {"kid": kid} if kid is not None else None
    given = claims(**{"iss": ISSUER, "aud": AUDIENCE, **fields})
    return jwt.encode(given, key, algorithm=algorithm, headers=headers)


def jwk(key: Any, kid: str, **fields: Any) -> dict[str, Any]:
    """The public half."""
    kind = ECAlgorithm if isinstance(key, ec.EllipticCurvePrivateKey) else RSAAlgorithm
    return {**kind.to_jwk(key.public_key(), as_dict=True), "kid": kid, **fields}


def key_set(*keys: dict[str, Any]) -> bytes:
    return orjson.dumps({"keys": keys})


@dataclass
class TurnedClock:
    """Stands still until it is turned."""

    at: float = 1_000_000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at
