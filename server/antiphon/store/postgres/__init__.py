"""The store on PostgreSQL: one database for all nodes of a cluster."""
