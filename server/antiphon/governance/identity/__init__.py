"""Who asks: keys, signed tokens and tickets to principals."""
