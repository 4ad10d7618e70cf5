"""The one settings tree: `antiphon.toml`, then `ANTIPHON_*`, then flags. Unknown keys are errors."""

from __future__ import annotations

import ipaddress
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from antiphon.errors import StartupError
from antiphon.settings_tools import ToolSettings, ToolsSettings, WebSearchSettings

MIB = 1024 * 1024

_OTHER_VARIABLES = frozenset(
    {"ANTIPHON_CONFIG", "ANTIPHON_URL", "ANTIPHON_API_KEY", "ANTIPHON_MODEL", "ANTIPHON_TEST_URL"}
)
"""Names that are no settings: the configuration file's, and what example clients and tests read."""


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class JournalSettings(_Table):
    """How the event log of a run is kept."""

    mode: Literal["relaxed", "strict"] = Field(
        "relaxed", description="`strict`: no event is shown before it survives a power cut."
    )
    retention_s: float = Field(86_400, ge=0, description="How long an ended run can be attached to.")
    flush_ms: float = Field(15, gt=0, le=1000, description="Longest time an event waits for the durable log.")
    tail_bytes: int = Field(
        8 * MIB, gt=0, description="Events of a stored run kept in memory; older ones are read back."
    )
    memory_run_bytes: int = Field(
        192 * MIB, gt=0, description="Log of one `store: false` run; beyond it the oldest events expire."
    )


class StoreSettings(_Table):
    """How results are kept."""

    retry_s: float = Field(60, ge=0, description="How long a terminal write is tried again before the run fails.")
    grace_s: float = Field(60, ge=0, description="How long a `store: false` run can be attached to after its end.")


class LimitSettings(_Table):
    """Bounds that protect everybody from one client. Each refusal names its limit."""

    max_message_bytes: int = Field(64 * MIB, gt=0)
    max_body_bytes: int = Field(64 * MIB, gt=0)
    json_depth: int = Field(128, gt=0, description="Nesting of arrays and objects in what clients send.")
    running_per_connection: int = Field(16, gt=0)
    named_lanes: int = Field(32, gt=0)
    queued_per_connection: int = Field(1024, gt=0, description="Creates that wait for their turn.")
    attachments_per_connection: int = Field(256, gt=0)
    bad_frames_per_minute: int = Field(20, gt=0)
    outbox_bytes: int = Field(
        1 * MIB, gt=0, description="Unsent bytes of a connection before attachments are parked."
    )
    upstream_event_bytes: int = Field(16 * MIB, gt=0, description="Largest single event read from an upstream.")


class TimeoutSettings(_Table):
    """Every wait has an end."""

    keepalive_s: float = Field(15, gt=0, description="Silence on a running lane before a keepalive frame.")
    ping_interval_s: float = Field(20, gt=0)
    ping_timeout_s: float = Field(20, gt=0)
    connection_age_s: float = Field(3600, gt=0)
    connection_grace_s: float = Field(60, ge=0, description="For running turns after the connection's age.")
    stalled_socket_s: float = Field(15, gt=0, description="A socket that takes no byte for this long is closed.")
    http_abandon_s: float = Field(
        60,
        ge=0,
        description="A plain HTTP run nobody listens to is cancelled after it, unless it holds its calls.",
    )
    drain_pause_s: float = Field(
        0, ge=0, description="From failing readiness to refusing work, for load balancers."
    )
    drain_s: float = Field(30, ge=0, description="What running turns get at shutdown.")
    upstream_connect_s: float = Field(10, gt=0)
    upstream_first_byte_s: float | None = Field(
        None, gt=0, description="From a call to the first byte of its answer; absent: as `upstream_idle_s`."
    )
    upstream_idle_s: float = Field(300, gt=0, description="Longest silence of an upstream in mid-answer.")
    claim_lease_s: float = Field(30, gt=0, description="How long a claim of a held call lasts unless renewed.")


class RetrySettings(_Table):
    """A failed call of a model is made again, as long as nothing of its answer was delivered."""

    max_attempts: int = Field(3, ge=1, le=20, description="Calls in all; 1 repeats nothing.")
    base_ms: float = Field(500, ge=0, description="Upper end of the first random wait; it doubles each time.")
    max_wait_s: float = Field(8, ge=0, description="Where it stops doubling.")
    retry_after_max_s: float = Field(
        20, ge=0, description="An upstream whose Retry-After is longer fails the call at once."
    )


class BreakerSettings(_Table):
    """An upstream that keeps failing is left alone for a while, then one call probes it."""

    failures: int = Field(5, ge=1, description="Failures in a row after which it is not asked any more.")
    open_s: float = Field(30, gt=0, description="How long.")


class LoopSettings(_Table):
    """How long a run may go on by itself."""

    max_rounds: int = Field(10, ge=1, le=1000, description="Model calls of one run; then it ends `incomplete`.")


class UpstreamSettings(_Table):
    """A model server. `key` is a secret; prefer `key_env`, the name of a variable that holds it."""

    name: str
    url: str
    api: Literal["responses", "chat"] = Field("responses", description="`responses`, or `chat`.")
    key: SecretStr | None = None
    key_env: str | None = None
    models: tuple[str, ...] | None = Field(None, description="Absent: asked from /models.")
    caller_key: bool = Field(False, description="Callers may bring their own token for this upstream.")
    native_tools: tuple[str, ...] | None = Field(
        None,
        description="Tool types it executes itself, such as `web_search`. Absent: all with `responses`, none with "
        "`chat`.",
    )
    ignore_tools: tuple[str, ...] = Field(
        (), description="Tool types that are left out of a request where nobody here has them, instead of refused."
    )
    native_compaction: bool = Field(False, description="It compacts histories itself; the server leaves it to it.")


class TenantSettings(_Table):
    id: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    tier: str = "enterprise"
    models: tuple[str, ...] | None = Field(None, description="Absent: every model; empty: none.")


class KeySettings(_Table):
    """A static API key. `sha256`: hex digest of the key; the key itself is never in the file."""

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    name: str | None = None
    user: str | None = None
    tenant: str = Field("default", pattern=r"^[A-Za-z0-9_-]{1,64}$")
    role: Literal["viewer", "driver", "operator", "admin"] = "driver"


class Settings(BaseSettings):
    """Everything an operator can decide."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix="ANTIPHON_", env_nested_delimiter="__", populate_by_name=True
    )

    host: str = Field("127.0.0.1", description="Address to bind.")
    port: int = Field(8787, ge=0, le=65535, description="0 picks a free one.")
    data_dir: Path = Field(Path("~/.antiphon"), description="Database, lock, `scripts/`, perhaps `antiphon.toml`.")
    store_url: str = Field("", description="`sqlite:///path`; empty: `antiphon.db` in the data folder.")
    auth: Literal["off", "required"] | None = Field(None, description="Default: off on loopback, else required.")
    insecure: bool = Field(False, description="Allow `auth = off` on an address that is not loopback.")
    allowed_hosts: tuple[str, ...] = Field((), description="Host names served besides the address bound to.")
    trusted_proxies: tuple[str, ...] = Field((), description="Addresses whose forwarding headers are believed.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least severe line shown.")
    log_format: Literal["auto", "json", "console"] = Field("auto", description="`auto`: console on a terminal.")

    seal_key: SecretStr | None = Field(
        None, description="Seals compactions, at least 32 characters; absent: `seal.key` in the data folder."
    )

    upstream_url: str | None = Field(None, description="One model server without a file: its base URL with `/v1`.")
    upstream_api: Literal["responses", "chat"] = Field("responses", description="`responses`, or `chat`.")
    upstream_key: SecretStr | None = Field(None, description="Its key.")
    upstream_model: str | None = Field(None, description="Its one model; absent: asked from /models.")

    journal: JournalSettings = JournalSettings()
    store: StoreSettings = StoreSettings()
    limits: LimitSettings = LimitSettings()
    timeouts: TimeoutSettings = TimeoutSettings()
    retry: RetrySettings = RetrySettings()
    breaker: BreakerSettings = BreakerSettings()
    fallbacks: dict[str, tuple[str, ...]] = Field(
        {},
        description="By model, the models that answer in its place when its upstream fails, in order.",
        examples=['[fallbacks]\n"gpt-5.5" = ["gpt-5.5-mini", "local-model"]'],
    )
    loop: LoopSettings = LoopSettings()
    upstream: tuple[UpstreamSettings, ...] = ()
    tenant: tuple[TenantSettings, ...] = ()
    key: tuple[KeySettings, ...] = ()
    tools: ToolsSettings = ToolsSettings()
    tool: tuple[ToolSettings, ...] = ()
    web_search: WebSearchSettings = WebSearchSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    @model_validator(mode="after")
    def _check(self) -> Settings:
        if self.auth == "off" and not self.is_loopback and not self.insecure:
            raise ValueError(
                f"auth = off serves everybody who can reach {self.host}; bind 127.0.0.1, "
                "configure keys, or say --insecure"
            )
        if self.auth_required and not self.key:
            why = f"{self.host} is reachable from other machines, so " if self.auth is None else ""
            raise ValueError(
                f"{why}authentication is required, but no [[key]] is configured; add one (sha256 of the key) "
                f"or {'bind 127.0.0.1' if self.auth is None else 'leave auth out'}"
            )
        names = [tool.name for tool in self.tool]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two tools are named {name!r}; names must differ")
        known = {tenant.id for tenant in self.tenant} | {"default"}
        for key in self.key:
            if key.tenant not in known:
                raise ValueError(
                    f"key {key.name or key.sha256[:12]!r} names tenant {key.tenant!r}, which is not configured"
                )
        return self

    @model_validator(mode="after")
    def _check_fallbacks(self) -> Settings:
        for model in self.fallbacks:
            way = _circle(self.fallbacks, [model])
            if way is not None:
                raise ValueError(f"fallbacks go round in a circle: {' -> '.join(way)}")
        return self

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address we bind."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def auth_required(self) -> bool:
        return self.auth == "required" or (self.auth is None and not self.is_loopback)

    @property
    def data_path(self) -> Path:
        """The data folder with `~` resolved."""
        return self.data_dir.expanduser()

    @property
    def database_path(self) -> Path:
        """Where SQLite keeps its file. Raises StartupError on a URL of another engine."""
        if not self.store_url:
            return self.data_path / "antiphon.db"
        scheme, _, rest = self.store_url.partition(":///")
        if scheme != "sqlite" or not rest:
            raise StartupError(
                f"store_url {self.store_url!r} is not sqlite:///path; other engines are not built in yet"
            )
        return Path(rest).expanduser()

    @property
    def upstreams(self) -> tuple[UpstreamSettings, ...]:
        """The configured upstreams, with the short form of the environment first."""
        if not self.upstream_url:
            return self.upstream
        short = UpstreamSettings(
            name="default",
            url=self.upstream_url,
            api=self.upstream_api,
            key=self.upstream_key,
            models=(self.upstream_model,) if self.upstream_model else None,
        )
        return (short, *self.upstream)


def _circle(fallbacks: Mapping[str, Sequence[str]], way: list[str]) -> list[str] | None:
    """The first circle that goes on from the end of `way`, None if there is none."""
    for model in fallbacks.get(way[-1], ()):
        if model in way:
            return [*way[way.index(model) :], model]
        found = _circle(fallbacks, [*way, model])
        if found is not None:
            return found
    return None


def find_config(explicit: Path | None, data_dir: Path) -> Path | None:
    """The configuration file: the one named, else `antiphon.toml` here, else in the data folder.

    Raises StartupError when the one named is not there.
    """
    if explicit is not None:
        if not explicit.is_file():
            raise StartupError(f"configuration file {explicit} does not exist")
        return explicit
    for folder in (Path.cwd(), data_dir.expanduser()):
        if (folder / "antiphon.toml").is_file():
            return folder / "antiphon.toml"
    return None


def load_settings(config: Path | None = None, **flags: Any) -> tuple[Settings, Path | None]:
    """Read file, environment and flags (flags that are None are not set); gives also the file that was read.

    Raises StartupError with one line for each wrong key.
    """
    given = {key: value for key, value in flags.items() if value is not None}
    folder = given.get("data_dir") or os.environ.get("ANTIPHON_DATA_DIR") or "~/.antiphon"
    path = find_config(config, Path(folder))

    class FromFile(Settings):
        model_config = SettingsConfigDict(toml_file=path)

    try:
        settings = FromFile(**given)
    except ValidationError as error:
        lines = [f"  {'.'.join(map(str, e['loc'])) or 'settings'}: {e['msg']}" for e in error.errors()]
        raise StartupError("the configuration is not valid:\n" + "\n".join(lines)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise StartupError(f"the configuration file {path} cannot be read: {error}") from error
    except SettingsError as error:
        raise StartupError(f"the environment is not valid: {error}") from error
    _refuse_unknown_variables(settings)
    return settings, path


def _refuse_unknown_variables(settings: Settings) -> None:
    """A misspelt variable must not be lost silently; pydantic looks only for those it knows."""
    known = {f"ANTIPHON_{name.upper()}" for name in Settings.model_fields} | _OTHER_VARIABLES
    known |= {upstream.key_env for upstream in settings.upstream if upstream.key_env}
    known |= {name for tool in settings.tool for name in tool.variables} | {settings.web_search.key_env or ""}
    lines = [
        f"  {name}: there is no such setting"
        for name in sorted(os.environ)
        if name.startswith("ANTIPHON_") and name.partition("__")[0] not in known
    ]
    if lines:
        raise StartupError("the environment is not valid:\n" + "\n".join(lines))
