"""Signed tokens: whose they are, and every way in which one is refused (PROTOCOL 3.2)."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from pydantic import ValidationError

from antiphon.core.principal import Principal
from antiphon.errors import AntiphonError, Unauthorized
from antiphon.governance.identity.key_sets import KeySet, Secret, VerifyingKeys
from antiphon.governance.identity.tokens import Tokens, is_token
from antiphon.settings.identity import JwtSettings
from tests.identity.signing import EC_KEY as EC
from tests.identity.signing import OTHER_RSA_KEY as OTHER_RSA
from tests.identity.signing import RSA_KEY as RSA
from tests.identity.signing import SECRET, TurnedClock, claims, jwk, key_set

TIERS = {"acme": "pro"}
HS256: dict[str, Any] = {"algorithm": "HS256", "secret": SECRET, "leeway_s": 0}


def signed(key: Any = SECRET, algorithm: str = "HS256", kid: str | None = None, **fields: Any) -> str:
    """A token of anna at acme that names no role."""
    headers = {"kid": kid} if kid else None
    return jwt.encode(claims(**{"role": None, **fields}), key, algorithm=algorithm, headers=headers)


def tokens(keys: VerifyingKeys | None = None, **settings: Any) -> Tokens:
    return Tokens(JwtSettings(**{**HS256, **settings}), keys or Secret(SECRET.encode()), TIERS)


def rsa_tokens(*keys: dict[str, Any], algorithm: str = "RS256", **settings: Any) -> Tokens:
    async def read() -> bytes:
        return key_set(*keys)

    given = {"algorithm": algorithm, "secret": None, "jwks_file": "jwks.json", **settings}
    return tokens(KeySet(algorithm, read, TurnedClock(), 600.0), **given)


async def refusal(token: str, reader: Tokens | None = None) -> str:
    """The code; the reason in words holds nothing of the token."""
    with pytest.raises(Unauthorized) as caught:
        await (reader or tokens()).read(token)
    said = caught.value.message + str(caught.value.headers)
    assert caught.value.status == 401 and 'error="invalid_token"' in said
    assert not [part for part in token.split(".") if len(part) > 8 and part in said]
    return caught.value.code


async def test_a_token_says_who_it_is_in_which_tenant_with_which_role_and_for_how_long() -> None:
    until = float(int(time.time()) + 3600)
    anna = await tokens().read(signed(exp=until, jti="t1", iat=7))
    assert anna == Principal("user:anna", "acme", "driver", "pro", until, "jwt:t1", 7.0)
    late = await tokens(leeway_s=30).read(signed(exp=until, role="viewer"))
    assert (late.role, late.expires_at) == ("viewer", until + 30)


async def test_a_user_without_a_tenant_is_a_scope_of_its_own_that_no_tenant_and_no_other_user_is() -> None:
    scopes = set()
    for sub in ("x", "acme", "user:x", "a/b", "a%2Fb", "ä", "anna@example.com", "auth0|7", "{x}", "a:b"):
        principal = await tokens().read(signed(sub=sub, tenant=None))
        assert principal.tenant == principal.id and principal.tenant.startswith("user:")
        assert not set(principal.tenant) & set("{}*?[ \n")
        scopes.add(principal.tenant)
    assert len(scopes) == 10
    in_a_tenant = await tokens().read(signed(sub="x", tenant="x"))
    assert (in_a_tenant.id, in_a_tenant.tenant) == ("user:x", "x")
    assert "user:x" in scopes and "x" not in scopes


@pytest.mark.parametrize(
    "bad",
    [
        {"sub": None},
        {"sub": ""},
        {"sub": "x" * 257},
        {"tenant": "user:anna"},
        {"tenant": ""},
        {"tenant": "a b"},
        {"tenant": "x" * 65},
        {"tenant": 7},
        {"tenant": ["acme"]},
        {"role": "root"},
        {"role": 7},
        {"exp": None},
        {"exp": 10**400},
        {"nbf": 4_000_000_000},
    ],
    ids=str,
)
async def test_claims_that_name_nobody_or_no_end_are_refused(bad: dict[str, Any]) -> None:
    assert await refusal(signed(**bad)) == "invalid_token"


async def test_a_time_that_is_written_as_a_text_is_one() -> None:
    until = int(time.time()) + 60
    assert (await tokens().read(signed(exp=str(until)))).expires_at == until


async def test_names_of_claims_and_what_counts_without_them_are_configured() -> None:
    reader = tokens(user_claim="uid", tenant_claim="org", role_claim="groups", default_role="viewer")
    one = await reader.read(signed(uid="bob", org="acme", groups=["staff", "operator", "driver"], sub=None))
    assert (one.id, one.tenant, one.role) == ("user:bob", "acme", "operator")
    two = await reader.read(signed(uid="bob", groups=["staff"], tenant="ignored"))
    assert (two.tenant, two.role) == ("user:bob", "viewer")


async def test_a_tenant_that_is_not_configured_counts_unless_only_those_do() -> None:
    assert (await tokens().read(signed(tenant="new"))).tier == "enterprise"
    assert await refusal(signed(tenant="new"), tokens(any_tenant=False)) == "invalid_token"
    assert (await tokens(any_tenant=False).read(signed())).tenant == "acme"


async def test_issuer_and_audience_have_to_be_the_configured_ones() -> None:
    reader = tokens(issuer="https://login.example/", audience="antiphon")
    good = {"iss": "https://login.example/", "aud": ["other", "antiphon"]}
    assert (await reader.read(signed(**good))).id == "user:anna"
    for bad in (
        {**good, "iss": "https://login.example"},
        {**good, "iss": None},
        {**good, "aud": "antiphon2"},
        {**good, "aud": None},
    ):
        assert await refusal(signed(**bad), reader) == "invalid_token"


async def test_a_token_that_has_run_out_says_so_and_counts_within_the_leeway() -> None:
    assert await refusal(signed(exp=time.time() - 1)) == "token_expired"
    assert (await tokens(leeway_s=300).read(signed(exp=time.time() - 1))).id == "user:anna"
    assert await refusal(signed(exp=time.time() - 301), tokens(leeway_s=300)) == "token_expired"


def unsigned(algorithm: str) -> str:
    def part(value: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': algorithm, 'typ': 'JWT'})}.{part(claims())}."


async def test_forged_tokens_are_refused() -> None:
    head, body, signature = signed().split(".")
    other = signed(role="admin").split(".")[1]
    for token in (
        signed(key="another secret of thirty-two bytes or so"),
        f"{head}.{other}.{signature}",
        f"{head}.{body}.",
        f"{head}.{body}.{signature[:-4]}AAAA",
        "..",
        "a.b.c",
        "é.é.é",
        "e30.e30.e30",
        f"{head}.{body}.{'x' * 20_000}",
    ):
        assert await refusal(token) == "invalid_token", token[:60]


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", "HS256"])
async def test_a_token_without_a_signature_is_refused_whatever_it_says_about_it(algorithm: str) -> None:
    assert await refusal(unsigned(algorithm)) == "invalid_token"
    assert await refusal(unsigned(algorithm), rsa_tokens(jwk(RSA, "one"))) == "invalid_token"


async def test_the_algorithm_is_the_configured_one_and_never_the_tokens_choice() -> None:
    public = RSA.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    # The classic confusion: the public key as the secret of HS256.
    confused = jwt.api_jws.PyJWS()
    confused._algorithms["HS256"].prepare_key = lambda key: key  # type: ignore[method-assign]
    forged = confused.encode(json.dumps(claims()).encode(), public, algorithm="HS256")
    reader = rsa_tokens(jwk(RSA, "one"))
    assert await refusal(forged, reader) == "invalid_token"
    assert await refusal(signed(), reader) == "invalid_token"
    assert await refusal(signed(RSA, "RS256")) == "invalid_token"
    assert await refusal(signed(RSA, "RS512", "one"), reader) == "invalid_token"
    assert await refusal(signed(EC, "ES256", "one"), reader) == "invalid_token"
    assert await refusal(signed(SECRET * 3, "HS512")) == "invalid_token"


async def test_keys_are_chosen_by_id_and_one_that_is_alone_needs_none() -> None:
    both = rsa_tokens(jwk(RSA, "one"), jwk(OTHER_RSA, "two"))
    for key, kid in ((RSA, "one"), (OTHER_RSA, "two")):
        assert (await both.read(signed(key, "RS256", kid))).id == "user:anna"
    for key, kid in ((RSA, "two"), (OTHER_RSA, "one"), (RSA, "three"), (RSA, None)):
        assert await refusal(signed(key, "RS256", kid), both) == "invalid_token"
    assert (await rsa_tokens(jwk(RSA, "one")).read(signed(RSA, "RS256"))).id == "user:anna"
    curve = rsa_tokens(jwk(EC, "e"), jwk(RSA, "one"), algorithm="ES256")
    assert (await curve.read(signed(EC, "ES256", "e"))).id == "user:anna"
    assert await refusal(signed(RSA, "RS256", "one"), curve) == "invalid_token"


async def test_keys_for_encryption_or_another_algorithm_check_nothing() -> None:
    for fields in ({"use": "enc"}, {"alg": "RS512"}):
        reader = rsa_tokens(jwk(RSA, "one", **fields))
        assert await refusal(signed(RSA, "RS256", "one"), reader) == "invalid_token"


async def test_without_keys_nobody_can_tell_and_the_caller_may_come_back() -> None:
    async def read() -> bytes:
        raise OSError("the provider is away")

    reader = tokens(KeySet("HS256", read, TurnedClock(), 600.0))
    with pytest.raises(AntiphonError) as caught:
        await reader.read(signed(kid="one"))
    assert (caught.value.code, caught.value.status, caught.value.retryable) == ("identity_unavailable", 503, True)


def test_only_what_looks_like_a_token_is_read_as_one() -> None:
    assert is_token(signed()) and not is_token("ak_secret") and not is_token("sk-a.b") and not is_token("")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"algorithm": "none"}, "algorithm"),
        ({"algorithm": "HS256"}, "needs one of secret or secret_env"),
        ({"algorithm": "HS256", "secret": "short"}, "shorter than 32 bytes"),
        ({"algorithm": "HS256", "secret": SECRET, "secret_env": "X"}, "needs one of secret or secret_env"),
        (
            {"algorithm": "HS256", "secret": SECRET, "jwks_file": "x"},
            "jwks_file does not belong to algorithm HS256",
        ),
        ({}, "needs one of jwks_file or jwks_url"),
        ({"jwks_file": "x", "jwks_url": "https://x"}, "needs one of jwks_file or jwks_url"),
        ({"jwks_file": "x", "secret": SECRET}, "secret does not belong to algorithm RS256"),
        ({"jwks_url": "https://x"}, "needs issuer and audience"),
        ({"jwks_url": "file:///x", "issuer": "i", "audience": "a"}, "must begin with https:// or http://"),
        ({"jwks_file": "x", "leeway": 3}, "leeway"),
    ],
    ids=str,
)
def test_settings_that_do_not_fit_are_refused_in_one_line(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        JwtSettings(**given)
    (error,) = caught.value.errors()
    assert said in f"{error['loc']} {error['msg']}" and SECRET not in error["msg"]
