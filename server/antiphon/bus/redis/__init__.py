"""The bus on Redis or Valkey."""
