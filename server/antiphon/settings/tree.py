"""The one settings tree: `antiphon.toml`, then `ANTIPHON_*`, then flags. Unknown keys are errors."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from antiphon.errors import StartupError
from antiphon.settings.agents import AgentSettings, check_agents
from antiphon.settings.door import DoorLimits, DoorSettings, Networks, WebOrigins
from antiphon.settings.hooks import Contexts, HooksSettings, Middlewares, Observers, Skills
from antiphon.settings.identity import IdentitySettings, JwtSettings
from antiphon.settings.limits import LimitSettings, TimeoutSettings
from antiphon.settings.loop import LoopSettings
from antiphon.settings.observability import MetricsSettings, TracingSettings
from antiphon.settings.quotas import (
    BudgetSettings,
    PriceSettings,
    TierSettings,
    UsageSettings,
    check_quotas,
)
from antiphon.settings.storage import BusSettings, JournalSettings, StoreSettings
from antiphon.settings.tenants import KeySettings, TenantSettings
from antiphon.settings.tools import ToolSettings, ToolsSettings, WebSearchSettings
from antiphon.settings.upstream import BreakerSettings, RetrySettings, UpstreamSettings

_SQLITE = "sqlite:///"
_POSTGRESQL = ("postgresql://", "postgres://")


class Settings(BaseSettings):
    """Everything an operator can decide."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix="ANTIPHON_", env_nested_delimiter="__", populate_by_name=True
    )

    host: str = Field("127.0.0.1", description="Address to bind.")
    port: int = Field(8787, ge=0, le=65535, description="0 picks a free one.")
    workers: int = Field(
        1,
        ge=1,
        le=64,
        description="Processes that share the port on this machine; several share a Redis-compatible server, "
        "which is started for them unless `bus_url` names one.",
    )
    profile: Literal["openai", "open-responses"] = Field(
        "openai",
        description="What a WebSocket may do at once. `openai`: a turn on each lane. `open-responses`: one turn, "
        "as that specification has it; the creates of all lanes wait for each other.",
    )
    data_dir: Path = Field(Path("~/.antiphon"), description="Database, lock, `scripts/`, perhaps `antiphon.toml`.")
    store_url: str = Field(
        "", description="`sqlite:///path` or `postgresql://user@host/db`; empty: `antiphon.db` in the data folder."
    )
    bus_url: str = Field(
        "memory://",
        description="`redis://`, `rediss://` or `redis+sentinel://host:port,host:port/service`; needs PostgreSQL.",
    )
    auth: Literal["off", "required"] | None = Field(None, description="Default: off on loopback, else required.")
    insecure: bool = Field(False, description="Allow `auth = off` on an address that is not loopback.")
    allowed_hosts: tuple[str, ...] = Field((), description="Host names served besides the address bound to.")
    allowed_origins: WebOrigins = Field(
        (),
        description="Other sites whose pages may use the server, each as `https://chat.example`: scheme, name and "
        "port must all be the same.",
    )
    trusted_proxies: Networks = Field(
        (), description="Addresses or networks of proxies whose forwarding headers are believed."
    )
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
    bus: BusSettings = BusSettings()
    limits: LimitSettings = LimitSettings()
    door: DoorSettings = DoorSettings()
    timeouts: TimeoutSettings = TimeoutSettings()
    retry: RetrySettings = RetrySettings()
    breaker: BreakerSettings = BreakerSettings()
    fallbacks: dict[str, tuple[str, ...]] = Field(
        {},
        description="By model, the models that answer in its place when its upstream fails, in order.",
        examples=['[fallbacks]\n"gpt-5.5" = ["gpt-5.5-mini", "local-model"]'],
    )
    default_model: str | None = Field(
        None, min_length=1, description="Answers requests that name no model, and whose agent names none."
    )
    strict_fallbacks: bool = Field(
        True, description="Only the named fallbacks may answer in a model's place; false: `default_model` as well."
    )
    loop: LoopSettings = LoopSettings()
    upstream: tuple[UpstreamSettings, ...] = ()
    tenant: tuple[TenantSettings, ...] = ()
    key: tuple[KeySettings, ...] = ()
    jwt: JwtSettings | None = None
    identity: IdentitySettings = IdentitySettings()
    tools: ToolsSettings = ToolsSettings()
    tool: tuple[ToolSettings, ...] = ()
    web_search: WebSearchSettings = WebSearchSettings()
    hooks: HooksSettings = HooksSettings()
    middleware: Middlewares = ()
    context: Contexts = ()
    observer: Observers = ()
    skill: Skills = ()
    agent: tuple[AgentSettings, ...] = ()
    tiers: dict[str, TierSettings] = {}
    budget: tuple[BudgetSettings, ...] = ()
    price: tuple[PriceSettings, ...] = ()
    usage: UsageSettings = UsageSettings()
    metrics: MetricsSettings = MetricsSettings()
    tracing: TracingSettings = TracingSettings()

    @model_validator(mode="after")
    def _check_agents(self) -> Settings:
        check_agents(self.agent, {tenant.id for tenant in self.tenant} | {"default"})
        return self

    @model_validator(mode="after")
    def _check_quotas(self) -> Settings:
        check_quotas(self.tiers, [(t.id, t.tier) for t in self.tenant], self.budget, self.price)
        return self

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

    @field_validator("store_url")
    @classmethod
    def _check_store_url(cls, url: str) -> str:
        # What was given is not repeated: it may hold a password.
        if url and not url.startswith(_POSTGRESQL) and not url.startswith(_SQLITE):
            raise ValueError("it begins neither with sqlite:/// nor with postgresql://")
        if url == _SQLITE:
            raise ValueError("it names no file; it is sqlite:///path")
        return url

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
    def door_limits(self) -> DoorLimits:
        """How much, and how fast, is in force."""
        return self.door.in_force(auth_required=self.auth_required)

    @property
    def refuses_private_urls(self) -> bool:
        """Whether inputs may not name URLs of this network."""
        given = self.limits.private_input_urls
        return self.auth_required if given is None else given == "refuse"

    @property
    def data_path(self) -> Path:
        """The data folder with `~` resolved."""
        return self.data_dir.expanduser()

    @property
    def store_engine(self) -> Literal["sqlite", "postgresql"]:
        """What keeps the results."""
        return "postgresql" if self.store_url.startswith(_POSTGRESQL) else "sqlite"

    @property
    def database_path(self) -> Path:
        """Where SQLite keeps its file, if it is the engine."""
        path = self.store_url.removeprefix(_SQLITE)
        return Path(path).expanduser() if path else self.data_path / "antiphon.db"

    def check_engines(self) -> None:
        """Several machines need both Redis and PostgreSQL, one process neither; workers of one machine may share
        SQLite. Raises StartupError."""
        alone = self.bus_url.startswith("memory:")
        if alone and self.store_engine == "postgresql":
            raise StartupError("store_url is PostgreSQL, which several nodes share, so bus_url has to be Redis")
        if not alone and self.store_engine == "sqlite" and self.workers == 1:
            raise StartupError(
                "bus_url is Redis, so several nodes share the store: store_url has to be PostgreSQL"
            )

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
