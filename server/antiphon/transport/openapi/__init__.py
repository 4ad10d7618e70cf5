"""The description of the HTTP side in the words of OpenAPI."""
