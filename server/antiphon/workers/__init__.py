"""Several processes that serve one port of one machine (`antiphon serve --workers N`, ADR 17)."""
