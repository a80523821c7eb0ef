"""Measures how a captioner is served against its backbone alone, and against torch on the same weights.

Run as `python -m regard.benches.captions RUN BUNDLE`. Both sides of a comparison take turns in one process with one
thread each, and what counts is the processor time of the whole process, because a busy machine stretches any other; the
ratios are those of neighbours.
"""

# pyright: reportUnknownMemberType=false
# torch leaves some of its types open.
from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray

from regard.benches.recurrent import NoObserver, decode
from regard.contract.bundle import load_bundle
from regard.server.engine.engine import Engine, EngineSettings
from regard.server.request import CallContext, DecodeRequest, Pixels, SearchOptions
from regard.server.runtime.session import OpenModel, open_model
from regard.training.data.vocabulary import BEGIN
from regard.training.learning import checkpoint
from regard.training.models.captioner import Captioner
from regard.training.models.vision import BackboneConfig, read_picture

PICTURES = Path(__file__).resolve().parents[1] / "cli/pictures"
BATCH = 16
NO_REPEAT = 3  # as captions are served


def pictures(config: BackboneConfig) -> list[Pixels]:
    """So many pictures as one batch has: those of the demo, and their mirror images."""
    found = [read_picture(path.read_bytes(), config) for path in sorted(PICTURES.glob("*.jpg"))]
    found += [np.ascontiguousarray(each[:, ::-1]) for each in found]
    return (found * BATCH)[:BATCH]


def take_turns(
    rounds: int, ours: Callable[[], object], theirs: Callable[[], object]
) -> tuple[list[float], list[float]]:
    """Seconds of processor time of both sides, round by round."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        # Who goes first alternates: what the other left in the caches is then the same for both.
        for place in (0, 1) if number % 2 else (1, 0):
            start = time.process_time()
            (ours, theirs)[place]()
            seconds[place].append(time.process_time() - start)
    return seconds


def spread(ratios: Sequence[float]) -> dict[str, float]:
    """Median and quartiles."""
    low, middle, high = statistics.quantiles(ratios, n=4)
    return {"median": middle, "lower_quartile": low, "upper_quartile": high}


def figures(ours: Sequence[float], theirs: Sequence[float], ratios: Sequence[float]) -> dict[str, float]:
    """What is told of a comparison, times in milliseconds."""
    return {
        "ours_ms": 1000 * statistics.median(ours),
        "theirs_ms": 1000 * statistics.median(theirs),
        **{f"ratio_{name}": value for name, value in spread(ratios).items()},
    }


def bare_backbone(model: Captioner) -> Callable[[NDArray[np.float32]], None]:
    """The backbone alone on ONNX Runtime as anyone would export it: one picture, already normalised."""
    size = (1, 3, model.config.height, model.config.width)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "backbone.onnx")
        torch.onnx.export(
            model.backbone.network.eval(), (torch.zeros(size),), path, input_names=["picture"], dynamo=True
        )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(picture: NDArray[np.float32]) -> None:
        session.run(None, {"picture": picture})

    return run


def encode_against_backbone(model: Captioner, ours: OpenModel, work: Sequence[Pixels], rounds: int) -> dict[str, float]:
    """One picture: `encode` as the engine calls it, over the bare run of the backbone; less is better."""
    bare = bare_backbone(model)
    one = work[0][None]
    normalised = ((one.transpose(0, 3, 1, 2).astype(np.float32) - np.float32(127)) / np.float32(128)).copy()
    length = np.full(1, model.backbone.rows * model.backbone.columns, dtype=np.int64)
    for _ in range(3):
        ours.encode(one, length)
        bare(normalised)
    mine, theirs = take_turns(rounds, lambda: ours.encode(one, length), lambda: bare(normalised))
    return figures(mine, theirs, [a / b for a, b in zip(mine, theirs, strict=True)])


def requests(work: Sequence[Pixels], lengths: Sequence[int | None], longest: int) -> list[DecodeRequest]:
    """Greedy requests; with a length, captions of exactly so many tokens."""
    return [
        DecodeRequest(
            source=pixels,
            search=SearchOptions(
                beam_size=1,
                n_best=1,
                length_penalty=1.0,
                min_length=0 if length is None else length,
                max_length=longest if length is None else length,
                no_repeat_ngram=NO_REPEAT,
            ),
            keep_attention=True,
            context=CallContext(request_id="bench"),
        )
        for pixels, length in zip(work, lengths, strict=True)
    ]


@torch.inference_mode()
def torch_greedy(model: Captioner, work: Sequence[Pixels], lengths: Sequence[int]) -> None:
    """Caption a batch in torch, attention kept, each picture with so many tokens."""
    memory, state, _ = model.read(torch.from_numpy(np.stack(work)))
    token = torch.full((len(work),), BEGIN)
    kept: list[torch.Tensor] = []
    for _ in range(max(lengths)):
        logits, state, attention = model.step(token, state, memory)
        logits[:, : BEGIN + 1] = -torch.inf
        token = logits.argmax(dim=1)
        kept.append(attention)


def engine_against_torch(model: Captioner, ours: OpenModel, work: Sequence[Pixels], rounds: int) -> dict[str, float]:
    """A batch through the engine against torch: times as many captions a second; more is better."""
    key = ours.bundle.key
    engine = Engine({key: ours}, EngineSettings(workers=1, rows=BATCH, queue_limit=1000), NoObserver())
    engine.start()
    longest = ours.facts.max_target_tokens
    lengths = [
        max(1, len(result.hypotheses[0].tokens))
        for result in decode(engine, key, requests(work, [None] * len(work), longest))
    ]
    asked = requests(work, lengths, longest)
    made = [len(result.hypotheses[0].tokens) for result in decode(engine, key, asked)]
    if made != lengths:
        raise RuntimeError(f"captions have {made} tokens, not {lengths}")
    torch_greedy(model, work, lengths)
    mine, theirs = take_turns(rounds, lambda: decode(engine, key, asked), lambda: torch_greedy(model, work, lengths))
    engine.stop(5.0)
    found = figures(mine, theirs, [b / a for a, b in zip(mine, theirs, strict=True)])
    return {**found, "tokens_per_caption": statistics.mean(lengths)}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures, as text or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="the checkpoint that the bundle was made of")
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--profile", help="default: what a server takes")
    parser.add_argument("--rounds", type=int, default=40, help="of a picture; a quarter as many batches (default: 40)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    model = cast(Any, checkpoint.load(options.run).model)
    if not isinstance(model, Captioner):
        parser.error(f"{options.run} holds no captioner")
    model.eval()
    bundle = load_bundle(options.bundle, profile=options.profile)
    ours = open_model(bundle, device="cpu", intra_op_threads=1)
    work = pictures(model.backbone.config)
    found = {
        "encode over backbone": encode_against_backbone(model, ours, work, options.rounds),
        "engine over torch": engine_against_torch(model, ours, work, max(4, options.rounds // 4)),
    }
    facts = {
        "date": datetime.now(UTC).date().isoformat(),
        "bundle": f"{bundle.key.name}/{bundle.key.version}",
        "profile": bundle.profile,
    }
    if options.json:
        sys.stdout.write(json.dumps({**facts, "batch": BATCH, "threads": 1, **found}, indent=2) + "\n")
    else:
        sys.stdout.write(f"{facts['bundle']}, profile {bundle.profile}, 1 thread, processor time, {facts['date']}\n")
        for name, values in found.items():
            sys.stdout.write(f"{name}: {', '.join(f'{what} {value:.3g}' for what, value in values.items())}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
