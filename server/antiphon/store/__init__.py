"""What is kept: responses, their chains, idempotency records. SQLite on one machine."""
