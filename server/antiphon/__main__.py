"""`python -m antiphon`."""

from antiphon.cli.main import app

app()
