"""Exit status 0 if the server of this container answers 200 at a path: `python healthcheck.py /ready`."""

from __future__ import annotations

import http.client
import os
import sys

TIMEOUT_S = 3.0


def main() -> int:
    """0: it answers 200. 1: it answers something else, or does not answer."""
    # Not urllib: that would ask the proxy of the environment for 127.0.0.1.
    connection = http.client.HTTPConnection(
        "127.0.0.1", int(os.environ.get("ANTIPHON_PORT", "8787")), timeout=TIMEOUT_S
    )
    try:
        connection.request("GET", sys.argv[1])
        answer = connection.getresponse()
        print(answer.status, answer.read(1024).decode(errors="replace"))  # noqa: T201 what `docker inspect` shows
    except (OSError, http.client.HTTPException) as error:
        print(error)  # noqa: T201
        return 1
    finally:
        connection.close()
    return 0 if answer.status == 200 else 1


if __name__ == "__main__":
    sys.exit(main())
