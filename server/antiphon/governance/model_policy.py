"""Which models a tenant may use."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.settings.tenants import TenantSettings


class ModelPolicy:
    """The tenants' lists of models. A tenant without a list may use every model; one whose list is empty, none."""

    def __init__(self, tenants: Sequence[TenantSettings]) -> None:
        self._models = {tenant.id: frozenset(tenant.models) for tenant in tenants if tenant.models is not None}

    def may_use(self, tenant: str, model: str) -> bool:
        """Whether the tenant may use the model, if it exists."""
        models = self._models.get(tenant)
        return models is None or model in models
