"""One live connection: its reader, its lanes, its attachments."""
