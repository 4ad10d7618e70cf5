"""What nodes share while runs are live: who is there, messages between them, hints that something is new."""
