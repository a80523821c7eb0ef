"""Decodes for a benchmark: takes commands as lines of JSON and answers each by a line, with how long the engine took.

`python -m regard.benches.engine.decode_lines BUNDLE`. It does not know what its figures are compared with. Sources and
targets are ids; what is timed is the engine with its threads, queue and search, from the first submission to the last
outcome.

    {"do": "describe"}                                        name, versions, precisions, limits
    {"do": "tokenize", "texts": [...], "language": "es"}      ids of each text, as one segment
    {"do": "prepare", "precision", "workers", "rows", "beams"}  an engine for what comes next
    {"do": "decode", "sources": [...], "length": 16}          seconds, tokens; with "answers" the ids, too
    {"do": "profile", as prepare and decode}                  where the time of a decode goes
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from regard.benches.engine.operator_times import read_trace
from regard.contract.bundle import LoadedBundle, load_bundle
from regard.contract.errors import BundleError
from regard.server.engine.engine import Engine, EngineSettings, Outcome
from regard.server.errors import RegardError, StartupError
from regard.server.observer import TokenKind
from regard.server.request import CallContext, DecodeRequest, DecodeResult, SearchOptions
from regard.server.runtime.session import OpenModel, open_model
from regard.server.text.tokenization import TextPipeline
from regard.v1 import bundle_pb2

PRECISIONS = {bundle_pb2.PRECISION_INT8: "int8", bundle_pb2.PRECISION_FLOAT32: "float32"}
_QUEUE = 100_000


class _Silence:
    """Takes an engine's figures and drops them."""

    def step(self, seconds: float, rows: int, padding_ratio: float) -> None: ...
    def queued(self, seconds: float) -> None: ...
    def tokens(self, kind: TokenKind, count: int) -> None: ...
    def running(self, count: int) -> None: ...
    def waiting(self, count: int) -> None: ...


class EngineBench:
    """The engine under a benchmark, one at a time; close it at the end."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._bundle = load_bundle(directory)
        self._pipeline = TextPipeline(self._bundle)
        profiles = {PRECISIONS.get(profile.precision, ""): profile.name for profile in self._bundle.manifest.profiles}
        self._profiles = {precision: name for precision, name in profiles.items() if precision}
        self._models: dict[str, OpenModel] = {}
        self._engine: Engine | None = None
        self._beams = 1

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        """Do what a command says.

        Raises:
            ValueError, KeyError, RegardError, BundleError: it cannot be done.
        """
        match command.pop("do", None):
            case "describe":
                return self._describe()
            case "tokenize":
                return self._tokenize(**command)
            case "prepare":
                return self._prepare(**command)
            case "decode":
                return self._decode(**command)
            case "profile":
                return self._profile(**command)
            case other:
                raise ValueError(f"no command {other!r}")

    def close(self) -> None:
        """End the threads of the engine."""
        if self._engine is not None:
            self._engine.stop(0.0)
        self._engine = None

    def _describe(self) -> dict[str, Any]:
        manifest = self._bundle.manifest
        return {
            "name": "Regard",
            "versions": {name: version(name) for name in ("onnxruntime", "numpy")},
            "model": f"{manifest.name}/{manifest.version}",
            "checkpoint_sha256": manifest.provenance.checkpoint_sha256,
            "precisions": sorted(self._profiles),
            "begin": self._bundle.bos_id,
            "end": self._bundle.eos_id,
            "unknown": self._bundle.unknown_id,
            "never": sorted({self._bundle.pad_id, self._bundle.unknown_id, self._bundle.bos_id}),
            "output": self._bundle.ports.predictable,
            "languages": list(manifest.target_languages),
            # Tokens that sources with this end are searched among.
            "vocabularies": {
                self._bundle.target_end_ids[language]: tokens.tolist()
                for language, tokens in self._bundle.ports.target_vocabularies.items()
            },
        }

    def _tokenize(self, texts: Sequence[str], language: str = "") -> dict[str, Any]:
        ends = self._bundle.target_end_ids
        if language and ends and language not in ends:
            raise ValueError(f"the model writes {', '.join(ends)}, not {language!r}")
        end = ends.get(language, next(iter(ends.values()), None))
        segments = [self._pipeline.prepare(text, split=False, end_id=end) for text in texts]
        return {"sources": [found[0].ids.tolist() if found else [] for found in segments]}

    def _prepare(self, precision: str, workers: int, rows: int, beams: int) -> dict[str, Any]:
        self.close()
        if precision not in self._models:
            self._models[precision] = self._open(precision)
        self._engine = self._start(self._models[precision], workers=workers, rows=rows, beams=beams)
        self._beams = beams
        return {}

    def _load(self, precision: str) -> LoadedBundle:
        if precision not in self._profiles:
            known = ", ".join(sorted(self._profiles)) or "none"
            raise ValueError(f"{self._directory} has no profile of precision {precision}; it has {known}")
        return load_bundle(self._directory, profile=self._profiles[precision])

    def _open(self, precision: str, *, trace: Path | None = None) -> OpenModel:
        return open_model(self._load(precision), device="cpu", intra_op_threads=1, trace=trace)

    def _start(self, model: OpenModel, *, workers: int, rows: int, beams: int) -> Engine:
        settings = EngineSettings(workers=workers, rows=rows * beams, widest_beam=beams, queue_limit=_QUEUE)
        engine = Engine({self._bundle.key: model}, settings, _Silence())
        engine.start()
        return engine

    def _decode(self, sources: Sequence[Sequence[int]], length: int, answers: bool = False) -> dict[str, Any]:
        if self._engine is None:
            raise ValueError("nothing was prepared")
        if not sources:
            raise ValueError("there are no sources to decode")
        requests = [
            DecodeRequest(
                source=np.array(source, dtype=np.int64),
                search=SearchOptions(
                    beam_size=self._beams, n_best=1, length_penalty=1.0, min_length=length, max_length=length or 256
                ),
                keep_attention=True,
                context=CallContext(request_id="bench"),
            )
            for source in sources
        ]
        processor = time.process_time()
        seconds, results = _run(self._engine, self._bundle, requests)
        processor = time.process_time() - processor
        found = [result.hypotheses[0].tokens.tolist() for result in results]
        timed = {"seconds": seconds, "processor_seconds": processor, "tokens": sum(map(len, found))}
        return {**timed, "answers": found} if answers else timed

    def _profile(
        self, precision: str, workers: int, rows: int, beams: int, sources: Sequence[Sequence[int]], length: int
    ) -> dict[str, Any]:
        self.close()
        self._beams = beams
        with tempfile.TemporaryDirectory(prefix="regard-") as folder:
            model = self._open(precision, trace=Path(folder))
            self._engine = self._start(model, workers=workers, rows=rows, beams=beams)
            timed = self._decode(sources, length)
            self.close()
            graphs = {name: read_trace(path)._asdict() for name, path in model.end_trace().items()}
        return {**timed, "graphs": graphs}


def _run(
    engine: Engine, bundle: LoadedBundle, requests: Sequence[DecodeRequest]
) -> tuple[float, Sequence[DecodeResult]]:
    """Decode everything; seconds, and the answers in order."""
    outcomes: dict[int, Outcome] = {}
    complete = threading.Event()

    def done(place: int, outcome: Outcome) -> None:
        outcomes[place] = outcome
        if len(outcomes) == len(requests):
            complete.set()

    began = time.perf_counter()
    engine.submit(bundle.key, requests, done)
    complete.wait()
    seconds = time.perf_counter() - began
    results: list[DecodeResult] = []
    for place in range(len(requests)):
        outcome = outcomes[place]
        if not isinstance(outcome, DecodeResult):
            raise outcome
        results.append(outcome)
    return seconds, results


def serve(bench: EngineBench, commands: TextIO, answers: TextIO) -> None:
    """Answer commands until there are no more; what cannot be done is answered with {"error": ...}."""
    for line in commands:
        try:
            answer = bench.answer(json.loads(line))
        except (ValueError, KeyError, TypeError, RegardError, BundleError) as problem:
            answer = {"error": str(problem)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def main() -> int:
    """Serve standard input and output."""
    parser = argparse.ArgumentParser(prog="python -m regard.benches.engine.decode_lines", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="folder NAME/VERSION of the bundle to decode with")
    arguments = parser.parse_args()
    try:
        bench = EngineBench(arguments.bundle)
    except (StartupError, BundleError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    # Nothing but answers goes out, whatever a library may print.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        try:
            serve(bench, sys.stdin, answers)
        finally:
            bench.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
