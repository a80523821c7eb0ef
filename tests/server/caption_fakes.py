"""A captioner without weights, and a bundle directory for it: it says which colours it sees and looks at what is red.

They know no test. A caption is a colour for each quarter of the picture, from the upper left to the lower right; one of
them is a word of the null bundle's vocabulary. Attention goes to cells by how red they are.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.bundles import NULL

from regard.contract.ports import Port
from regard.server.engine.decoder import DecoderFacts, Tensors
from regard.server.request import CallContext, DecodeRequest, Ids, Pixels, SearchOptions, Weights

PAD, UNKNOWN, BEGIN, END = range(4)
VOCABULARY = 64
SIDE = 56
ROWS, COLUMNS = 7, 7
CELLS = ROWS * COLUMNS
LONGEST = 12
QUARTERS = 4

# Names of tokens from FIRST on.
COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (220, 40, 40),
    "green": (40, 180, 60),
    "blue": (40, 70, 220),
    "yellow": (240, 220, 40),
    "white": (255, 255, 255),
    "black": (0, 0, 0),
    "grey": (128, 128, 128),
}
FIRST = 4
_TABLE = np.array(list(COLOURS.values()), dtype=np.float32)


def colours_of(pixels: Pixels) -> list[str]:
    """What a fake captioner says of a picture: the colour nearest to the mean of each quarter."""
    height, width = pixels.shape[0] // 2, pixels.shape[1] // 2
    quarters = pixels.reshape(2, height, 2, width, 3).astype(np.float32).mean(axis=(1, 3)).reshape(QUARTERS, 3)
    nearest = np.square(quarters[:, None] - _TABLE).sum(axis=2).argmin(axis=1)
    return [list(COLOURS)[index] for index in nearest]


def words(*colours: str) -> str:
    """The text of a caption: the words of the null bundle that stand for colours."""
    indices = [list(COLOURS).index(colour) for colour in colours]
    return " ".join(f"echo{index}" if index else "echo" for index in indices)


def redness(pixels: Pixels) -> Weights:
    """How much each cell [row * columns + column] of pictures [batch, height, width, 3] is looked at; sums to 1."""
    batch, height, width, _ = pixels.shape
    cells = pixels.reshape(batch, ROWS, height // ROWS, COLUMNS, width // COLUMNS, 3).astype(np.float32)
    red, green, blue = np.moveaxis(cells.mean(axis=(2, 4)), -1, 0)
    weights = np.exp((red - np.maximum(green, blue)) / 16).reshape(batch, CELLS)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def looks_within(pixels: Pixels) -> Weights:
    """How cells look at each other [batch, layer 1, head 2, query, source]."""
    red = np.repeat(redness(pixels)[:, None], CELLS, axis=1)
    itself = np.broadcast_to(np.eye(CELLS, dtype=np.float32), red.shape)
    return np.stack([itself, red], axis=1)[:, None]


def picture(seed: int, *, beam_size: int = 1, no_repeat_ngram: int = 3) -> DecodeRequest:
    """A request for a picture of coloured noise."""
    random = np.random.default_rng(seed)
    blocks = random.integers(0, 256, (ROWS, COLUMNS, 3), dtype=np.uint8)
    return DecodeRequest(
        source=np.kron(blocks, np.ones((SIDE // ROWS, SIDE // COLUMNS, 1), dtype=np.uint8)),
        search=SearchOptions(
            beam_size=beam_size,
            n_best=beam_size,
            length_penalty=1.0,
            min_length=0,
            max_length=LONGEST,
            no_repeat_ngram=no_repeat_ngram,
        ),
        keep_attention=True,
        context=CallContext(request_id="test"),
    )


def nothing(batch: int) -> None:
    """Done before an encoding unless a test wants more."""


@dataclass(eq=False)
class FakeCaptioner:
    """Meets `regard.server.engine.decoder.Decoder`; counts what it is asked.

    Attributes:
        endless: whether the end of sentence is impossible.
        repeating: whether it says the colour of the first quarter again and again.
        before_encode: called with the number of pictures before they are encoded; may raise or wait.
        encoded: pictures of every batch so far.
        looks_within: whether it has self-attention over the cells: one head sees itself, the other what is red.
        looked: whether that was asked for, of every batch so far.
    """

    endless: bool = False
    repeating: bool = False
    provider: str = "FakeExecutionProvider"
    before_encode: Callable[[int], None] = nothing
    encoded: list[int] = field(default_factory=list[int])
    before_step: Callable[[list[Any]], None] = lambda sources: None
    looks_within: bool = False
    looked: list[bool] = field(default_factory=list[bool])

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

        def port(name: str, role: Any, dtype: str, *axes: str | int) -> Port:
            return Port(name=name, role=role, dtype=dtype, axes=axes)

        self.facts = DecoderFacts(
            memory=(
                port("memory.looks", "memory", "float32", "batch", CELLS),
                port("memory.colours", "memory", "int64", "batch", QUARTERS),
            ),
            state=(port("state.position", "state", "int64", "batch"),),
            vocabulary_size=VOCABULARY,
            output_size=VOCABULARY,
            layers=1,
            heads=1,
            alignment_heads=((0, 0),),
            pad_id=PAD,
            bos_id=BEGIN,
            eos_id=END,
            suppressed_ids=(PAD, UNKNOWN, BEGIN),
            max_source_tokens=CELLS,
            max_target_tokens=LONGEST,
            pixels=(SIDE, SIDE),
            encoder_attention=self.looks_within,
        )

    def encode(self, source: Ids | Pixels, source_length: Ids, *, encoder_attention: bool = False) -> Tensors:
        """See `Decoder.encode`."""
        assert source.dtype == np.uint8
        assert source.shape[1:] == (SIDE, SIDE, 3)
        assert (source_length == CELLS).all()
        self.before_encode(len(source))
        with self._lock:
            self.encoded.append(len(source))
            self.looked.append(encoder_attention)
        pixels: Pixels = source.astype(np.uint8)
        names = list(COLOURS)
        seen = [[FIRST + names.index(colour) for colour in colours_of(one)] for one in pixels]
        made: dict[str, NDArray[Any]] = {
            "memory.looks": redness(pixels),
            "memory.colours": np.array(seen, dtype=np.int64),
            "state.position": np.zeros(len(source), dtype=np.int64),
        }
        if encoder_attention:
            made["attention.encoder"] = looks_within(pixels)
        return made

    def bind_step(self, inputs: Tensors, outputs: Tensors, rows: int) -> Callable[[], None]:
        """See `Decoder.bind_step`."""

        def run() -> None:
            self.before_step([])
            for row in range(rows):
                position = int(inputs["state.position"][row])
                outputs["next.state.position"][row] = position + 1
                outputs["scores"][row] = self._scores(inputs["memory.colours"][row], position)
                outputs["attention"][row, 0, 0] = inputs["memory.looks"][row]

        return run

    def _scores(self, colours: NDArray[np.int64], position: int) -> Weights:
        logits = -0.05 * np.arange(VOCABULARY, dtype=np.float32)
        if self.repeating:
            logits[colours[0]] += 8
        elif position < QUARTERS:
            logits[colours[position]] += 8
        else:
            logits[END] += 8
        logits[END] += -np.inf if self.endless else -4.0
        return (logits - np.log(np.exp(logits).sum())).astype(np.float32)


def write_caption_bundle(
    root: Path, *, name: str = "captions", without_attention: bool = False, looks_within: bool = False
) -> Path:
    """Make NAME/1 below a folder: a bundle of the fake captioner, whose graphs are files that nobody opens."""
    directory = root / name / "1"
    directory.mkdir(parents=True)
    shutil.copy(NULL / "tokenizer.json", directory)
    for file in ("encode.onnx", "step.onnx", "README.md"):
        (directory / file).write_text(f"{file} of a model without weights\n", encoding="utf-8")
    manifest = json.loads((NULL / "bundle.json").read_text(encoding="utf-8"))
    manifest.update(name=name, version="1", task="TASK_CAPTIONING", description="says what colours it sees")
    manifest["targetLanguages"] = ["en"]
    manifest["limits"] = {"maxSourceTokens": CELLS, "maxTargetTokens": LONGEST}
    manifest["image"] = {
        "height": SIDE,
        "width": SIDE,
        "rows": ROWS,
        "columns": COLUMNS,
        "resampling": "RESAMPLING_BILINEAR",
        "ground": [255, 255, 255],
    }

    def port(name: str, role: str, dtype: str, *axes: str) -> dict[str, Any]:
        return {"name": name, "role": f"PORT_ROLE_{role}", "dtype": dtype, "axes": ["batch", *axes]}

    memory = [
        port("memory.looks", "MEMORY", "float32", str(CELLS)),
        port("memory.colours", "MEMORY", "int64", str(QUARTERS)),
    ]
    outputs = [
        port("scores", "SCORES", "float32", str(VOCABULARY)),
        port("next.state.position", "STATE", "int64"),
        port("attention", "ATTENTION", "float32", "1", "1", str(CELLS)),
    ]
    if without_attention:
        manifest["attention"] = {}
        del outputs[-1]
    looked = [port("attention.encoder", "ENCODER_ATTENTION", "float32", "1", "2", str(CELLS), str(CELLS))]
    for profile in manifest["profiles"]:
        common = {"opset": 20, "irVersion": 10}
        profile["encode"] = {
            **common,
            "file": "encode.onnx",
            "inputs": [port("pixels", "PIXELS", "uint8", str(SIDE), str(SIDE), "3")],
            "outputs": [*memory, port("state.position", "STATE", "int64"), *looked * looks_within],
        }
        profile["step"] = {
            **common,
            "file": "step.onnx",
            "inputs": [port("token", "TOKEN", "int64"), port("state.position", "STATE", "int64"), *memory],
            "outputs": outputs,
        }
        compared = {entry["name"] for graph in ("encode", "step") for entry in profile[graph]["outputs"]}
        profile["parity"]["ports"] = [{"port": entry, "worstAbsolute": 0.0} for entry in sorted(compared)]
        profile["parity"]["sourceLengths"] = [CELLS]
    manifest["files"] = [
        {
            "path": path.name,
            "sizeBytes": str(path.stat().st_size),
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in sorted(directory.iterdir())
    ]
    (directory / "bundle.json").write_text(json.dumps(manifest), encoding="utf-8")
    return directory
