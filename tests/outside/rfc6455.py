"""RFC 6455: the cases of Autobahn, as kosoku plays them, against an echo on the server's WebSocket protocol."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tests.outside.echo_server import echo_server
from tests.outside.outcome import Outcome, Skipped
from tests.outside.programs import python_program, python_version, run

SUITE = "kosoku (RFC 6455, the cases of Autobahn)"
AGAINST = "an echo on the server's WebSocket protocol class"
GOOD = {"OK", "NON-STRICT", "INFORMATIONAL"}
COMPRESSION = ("12", "13")
NO_COMPRESSION = "they need `permessage-deflate`, which the server does not offer"


async def rfc6455() -> Outcome:
    """Sections 1-7, 9 and 10 have to pass; 12 and 13 are of compression, which has to be refused."""
    program = python_program("kosoku")
    with tempfile.TemporaryDirectory(prefix="antiphon-rfc6455-") as folder:
        async with echo_server() as address:
            await run(program, "--parallelism", "2", "--outdir", folder, f"ws://{address}")
        verdicts = _verdicts(Path(folder))
    compression = [case for case in verdicts if case.split(".")[0] in COMPRESSION]
    judged = {case: verdict for case, verdict in verdicts.items() if case not in compression}
    failures = [f"{case}: {verdict}" for case, verdict in judged.items() if not GOOD.issuperset(verdict)]
    # A case of compression that is not «unimplemented» means that the server took an offer of it.
    failures += [f"{case}: {verdicts[case]}" for case in compression if verdicts[case] != ("UNIMPLEMENTED", "OK")]
    return Outcome(
        SUITE,
        python_version("kosoku"),
        AGAINST,
        passed=len(verdicts) - len(compression) - len([case for case in failures if case.split(":")[0] in judged]),
        failures=failures,
        skipped=[Skipped(len(compression), "cases 12 and 13", NO_COMPRESSION)],
    )


def _verdicts(folder: Path) -> dict[str, tuple[str, str]]:
    """Case -> verdicts of the exchange and of the close."""
    agents = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    return {
        case: (verdict["behavior"], verdict["behaviorClose"])
        for cases in agents.values()
        for case, verdict in cases.items()
    }
