"""Measures the engine against torch on the same weights, the price of attention, the start and the memory of a server.

Run by `make bench`. Every comparison interleaves its two sides in one process, so that a busy machine slows both; what
is quoted is the median of the ratios.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch

from regard.benches.rebuilt_model import rebuild
from regard.client import Client
from regard.contract.bundle import load_bundle
from regard.contract.names import ModelKey
from regard.loadtest.base.processes import child_environment
from regard.loadtest.load.corpus import read_sentences
from regard.server.engine.engine import Engine, EngineSettings, Outcome
from regard.server.observer import TokenKind
from regard.server.request import CallContext, DecodeRequest, DecodeResult, SearchOptions
from regard.server.runtime.session import open_model
from regard.server.text.tokenization import TextPipeline
from regard.training.data.vocabulary import BEGIN, END
from regard.training.models.rnn import Rnn

ROOT = Path(__file__).resolve().parents[1]
ROWS = 32


class NoObserver:
    """Takes an engine's figures and drops them."""

    def step(self, seconds: float, rows: int, padding_ratio: float) -> None: ...
    def queued(self, seconds: float) -> None: ...
    def tokens(self, kind: TokenKind, count: int) -> None: ...
    def running(self, count: int) -> None: ...
    def waiting(self, count: int) -> None: ...


def requests(bundle: Path, sentences: Sequence[str], keep_attention: bool, beam_size: int = 1) -> list[DecodeRequest]:
    """Turn sentences into requests, as the server would."""
    pipeline = TextPipeline(load_bundle(bundle))
    found: list[DecodeRequest] = []
    for sentence in sentences:
        for segment in pipeline.prepare(sentence, split=False):
            limit = min(2 * len(segment.ids) + 10, 256)
            found.append(
                DecodeRequest(
                    source=np.asarray(segment.ids, dtype=np.int64),
                    search=SearchOptions(
                        beam_size=beam_size, n_best=1, length_penalty=1.0, min_length=0, max_length=limit
                    ),
                    keep_attention=keep_attention,
                    context=CallContext(request_id="bench"),
                )
            )
    return found


def decode(engine: Engine, key: ModelKey, work: Sequence[DecodeRequest]) -> list[DecodeResult]:
    """Decode everything; the answers in order."""
    outcomes: list[Outcome | None] = [None] * len(work)
    left = threading.Semaphore(0)

    def done(place: int, outcome: Outcome) -> None:
        outcomes[place] = outcome
        left.release()

    engine.submit(key, work, done)
    for _ in work:
        left.acquire()
    failed = [outcome for outcome in outcomes if not isinstance(outcome, DecodeResult)]
    if failed:
        raise RuntimeError(f"{len(failed)} segments failed, the first with {failed[0]!r}")
    return [outcome for outcome in outcomes if isinstance(outcome, DecodeResult)]


def torch_greedy(model: Rnn, batches: Sequence[Sequence[DecodeRequest]]) -> int:
    """Decode batch by batch until every row has ended, attention kept; the number of target tokens, ends included."""
    tokens = 0
    with torch.inference_mode():
        for batch in batches:
            length = torch.tensor([len(request.source) for request in batch])
            source = torch.zeros(len(batch), int(length.max()), dtype=torch.int64)
            for row, request in enumerate(batch):
                source[row, : len(request.source)] = torch.tensor(request.source)
            limit = torch.tensor([request.search.max_length for request in batch])
            memory, state = model.encode(source, length)
            token = torch.full((len(batch),), BEGIN)
            alive = torch.ones(len(batch), dtype=torch.bool)
            kept: list[torch.Tensor] = []
            step = 0
            while bool(alive.any()):
                logits, state, attention = model.step(token, state, memory)
                logits[:, : BEGIN + 1] = -torch.inf
                token = logits.argmax(dim=1)
                kept.append(attention)
                step += 1
                tokens += int(alive.sum())
                alive &= (token != END) & (step <= limit)
    return tokens


def interleave(rounds: int, *sides: Callable[[], int]) -> list[list[float]]:
    """Rates of the sides, tokens per second, in turn: one list for each side."""
    rates: list[list[float]] = [[] for _ in sides]
    for _ in range(rounds):
        for side, found in zip(sides, rates, strict=True):
            start = time.perf_counter()
            tokens = side()
            found.append(tokens / (time.perf_counter() - start))
    return rates


def ratio(first: Sequence[float], second: Sequence[float]) -> float:
    """Median of the paired ratios."""
    return statistics.median(one / other for one, other in zip(first, second, strict=True))


def engine_against_torch(bundle: Path, sentences: Sequence[str], rounds: int, profile: str) -> dict[str, float]:
    """Throughput of one profile, 1 thread, against torch on the same weights, and with and without attention."""
    torch.set_num_threads(1)
    loaded = load_bundle(bundle, profile=profile)
    engine = Engine(
        {loaded.key: open_model(loaded, device="cpu", intra_op_threads=1)},
        EngineSettings(workers=1, rows=ROWS, queue_limit=10_000),
        NoObserver(),
    )
    engine.start()
    work = requests(bundle, sentences, keep_attention=True)
    bare = [replace(request, keep_attention=False) for request in work]
    beams = [replace(request, search=replace(request.search, beam_size=5)) for request in work[: len(work) // 4]]
    by_length = sorted(work, key=lambda request: len(request.source))
    batches, sorted_batches = (
        [order[at : at + ROWS] for at in range(0, len(order), ROWS)] for order in (work, by_length)
    )
    model = rebuild(bundle)

    def tokens(results: Sequence[DecodeResult]) -> int:
        return sum(len(result.hypotheses[0].tokens) + 1 for result in results)

    decode(engine, loaded.key, work[:ROWS])
    torch_greedy(model, batches[:1])
    with_attention, without, eager, eager_sorted, beam = interleave(
        rounds,
        lambda: tokens(decode(engine, loaded.key, work)),
        lambda: tokens(decode(engine, loaded.key, bare)),
        lambda: torch_greedy(model, batches),
        lambda: torch_greedy(model, sorted_batches),
        lambda: tokens(decode(engine, loaded.key, beams)),
    )
    engine.stop(5.0)
    return {
        "engine_tokens_per_second": statistics.median(with_attention),
        "engine_beam5_tokens_per_second": statistics.median(beam),
        "torch_tokens_per_second": statistics.median(eager),
        "torch_sorted_tokens_per_second": statistics.median(eager_sorted),
        "engine_over_torch": ratio(with_attention, eager),
        "engine_over_torch_sorted": ratio(with_attention, eager_sorted),
        "attention_over_none": ratio(with_attention, without),
    }


def server_start_and_memory(models: Path, sentences: Sequence[str]) -> dict[str, float]:
    """Seconds from start to ready, and peak resident memory after work, of a server process."""
    with tempfile.TemporaryDirectory() as folder:
        port_file = Path(folder, "port")
        command = [sys.executable, "-m", "regard.server", "--models", str(models), "--address", "127.0.0.1:0"]
        command += ["--port-file", str(port_file), "--metrics-address", "off", "--log-level", "error"]
        start = time.perf_counter()
        process = subprocess.Popen(command, env=child_environment(), stdout=subprocess.DEVNULL)  # noqa: S603
        try:
            while not (port_file.is_file() and port_file.read_text().strip()):
                if process.poll() is not None:
                    raise RuntimeError(f"the server ended with {process.returncode}")
                time.sleep(0.01)
            with Client(f"127.0.0.1:{port_file.read_text().strip()}") as client:
                client.wait_ready(60)
                ready = time.perf_counter() - start
                for at in range(0, len(sentences), 64):
                    client.translate(sentences[at : at + 64], beam_size=5, attention="subword")
            status = Path(f"/proc/{process.pid}/status").read_text()
            peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
        finally:
            process.terminate()
            process.wait(30)
    return {"seconds_to_ready": ready, "peak_megabytes": peak}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures, as text or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle", type=Path, default=ROOT / "models/en-es-rnn/1", help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved repetitions (default: %(default)s)")
    parser.add_argument("--copies", type=int, default=4, help="times the built-in sentences (default: %(default)s)")
    parser.add_argument("--sentences", type=int, metavar="N", help="so many of them only, for a quick look (all)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(argv)
    texts = list(read_sentences()) * options.copies
    order = np.random.default_rng(0).permutation(len(texts))
    sentences = [texts[index] for index in order][: options.sentences]
    figures = {
        profile: engine_against_torch(options.bundle, sentences, options.rounds, profile)
        for profile in ("cpu", "portable")
    }
    figures["server"] = server_start_and_memory(options.bundle.parents[1], sentences)
    date = datetime.now(UTC).date().isoformat()
    if options.json:
        print(json.dumps({"date": date, "rows": ROWS, "threads": 1, **figures}, indent=2))
    else:
        print(f"{ROWS} rows, 1 thread, attention kept, {date}")
        for name, found in figures.items():
            for what, value in found.items():
                print(f"{name:9} {what:34} {value:9.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
