"""Sources of model events: servers over HTTP, and models built in. All implement the `Upstream` port."""
