"""How the server is deployed: containers, and the same without them."""
