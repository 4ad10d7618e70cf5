"""What happens to a create before its run exists."""
