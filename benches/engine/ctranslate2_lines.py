"""Decodes for a benchmark with CTranslate2, on the weights of a checkpoint of a Transformer.

Run by a Python of its own, which has ctranslate2, numpy and safetensors and nothing else of this project:
`python ctranslate2_bench.py CHECKPOINT`. Takes the commands of `regard.benches.engine.decode_lines` but for tokenize
and profile, and answers alike. Tokens are called by their ids.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

# Not in the environment that these sources are checked in, and half typed.
ctranslate2: Any = import_module("ctranslate2")
specs: Any = import_module("ctranslate2.specs")
safetensors: Any = import_module("safetensors.numpy")

Weights = Mapping[str, NDArray[np.float32]]

BEGIN, END, UNKNOWN = "2", "3", "1"
# <pad>, <unk> and <s>, which the other side never generates either; a bias is what forbidding costs least.
NEVER = [0, 1, 2]
FORBIDDEN = -1e4
LONGEST = 256


def convert(checkpoint: Path, output: Path, vocabulary_map: Path | None = None) -> None:
    """Write the weights of a checkpoint as a model of CTranslate2.

    A vocabulary map says which tokens it searches among, for each token that a source holds.

    Raises:
        ValueError: the model is of a kind that this does not convert.
    """
    config: dict[str, Any] = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))["model"]
    wanted = {"kind": "transformer", "positions": "sinusoidal", "combination": "add"}
    for name, value in wanted.items():
        if config.get(name) != value:
            raise ValueError(f"{checkpoint}: {name} is {config.get(name)!r}; only {value!r} can be compared")
    weights: Weights = safetensors.load_file(checkpoint / "model.safetensors")
    heads: int = config["heads"]
    spec = specs.TransformerSpec.from_config(
        (config["encoder_layers"], config["decoder_layers"]),
        heads,
        pre_norm=config["norm"] == "pre",
        activation=specs.Activation.RELU,
        # The mean over all heads of the last layer.
        alignment_heads=0,
    )
    embedding, bias = weights["embedding.weight"], weights["output.bias"].copy()
    codes = sinusoids(LONGEST, embedding.shape[1])
    spec.encoder.embeddings[0].weight = embedding
    spec.encoder.position_encodings.encodings = codes
    spec.decoder.embeddings.weight = embedding[: len(bias)]
    spec.decoder.position_encodings.encodings = codes
    spec.decoder.projection.weight = embedding[: len(bias)]
    bias[NEVER] = FORBIDDEN
    spec.decoder.projection.bias = bias
    for index, layer in enumerate(spec.encoder.layer):
        _set_self_attention(layer.self_attention, weights, f"encoder.{index}.attention", f"encoder.{index}.around")
        _set_feed_forward(layer.ffn, weights, f"encoder.{index}.feed_forward")
    for index, layer in enumerate(spec.decoder.layer):
        name = f"decoder.{index}"
        _set_self_attention(layer.self_attention, weights, f"{name}.self_attention", f"{name}.around_self")
        _set_cross_attention(layer.attention, weights, f"{name}.cross_attention", f"{name}.around_cross")
        _set_feed_forward(layer.ffn, weights, f"{name}.feed_forward")
    if config["norm"] == "pre":
        _set_norm(spec.encoder.layer_norm, weights, "encoder_norm")
        _set_norm(spec.decoder.layer_norm, weights, "decoder_norm")
    spec.register_source_vocabulary([str(index) for index in range(len(embedding))])
    spec.register_target_vocabulary([str(index) for index in range(len(bias))])
    if vocabulary_map is not None:
        spec.register_vocabulary_mapping(str(vocabulary_map))
    spec.config.bos_token = spec.config.decoder_start_token = BEGIN
    spec.config.eos_token, spec.config.unk_token = END, UNKNOWN
    spec.config.add_source_bos = spec.config.add_source_eos = False
    output.mkdir(parents=True, exist_ok=True)
    spec.validate()
    spec.optimize(quantization=None)
    spec.save(str(output))


def sinusoids(positions: int, dim: int) -> NDArray[np.float32]:
    """Codes of positions [positions, dim]: sines in the first half, cosines of the same angles in the second."""
    half = dim // 2
    rates = np.exp(np.arange(half, dtype=np.float32) * np.float32(-np.log(10000.0) / max(half - 1, 1)))
    angles = np.arange(positions, dtype=np.float32)[:, None] * rates
    return np.concatenate((np.sin(angles), np.cos(angles)), axis=1).astype(np.float32)


def _set_linear(linear: Any, weights: Weights, *names: str) -> None:
    """Fill a product by those of some names, one below the other."""
    linear.weight = np.concatenate([weights[f"{name}.weight"] for name in names])
    linear.bias = np.concatenate([weights[f"{name}.bias"] for name in names])


def _set_norm(norm: Any, weights: Weights, name: str) -> None:
    norm.gamma, norm.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]


def _set_self_attention(attention: Any, weights: Weights, name: str, around: str) -> None:
    _set_norm(attention.layer_norm, weights, f"{around}.norm")
    _set_linear(attention.linear[0], weights, f"{name}.query", f"{name}.key_value")
    _set_linear(attention.linear[1], weights, f"{name}.output")


def _set_cross_attention(attention: Any, weights: Weights, name: str, around: str) -> None:
    _set_norm(attention.layer_norm, weights, f"{around}.norm")
    _set_linear(attention.linear[0], weights, f"{name}.query")
    _set_linear(attention.linear[1], weights, f"{name}.key_value")
    _set_linear(attention.linear[2], weights, f"{name}.output")


def _set_feed_forward(ffn: Any, weights: Weights, name: str) -> None:
    _set_norm(ffn.layer_norm, weights, f"{name}.around.norm")
    _set_linear(ffn.linear_0, weights, f"{name}.expand")
    _set_linear(ffn.linear_1, weights, f"{name}.contract")


class TranslatorBench:
    """Translators under a benchmark, one for each precision and number of workers."""

    def __init__(self, model: Path, *, mapped: bool = False) -> None:
        self._model = model
        self._mapped = mapped
        self._translators: dict[tuple[str, int], Any] = {}
        self._chosen: tuple[str, int] = ("", 0)
        self._rows = 1
        self._beams = 1

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        """Do what a command says. Raises ValueError, TypeError or RuntimeError if it cannot be done."""
        match command.pop("do", None):
            case "describe":
                names = ("ctranslate2", "numpy")
                return {"name": "CTranslate2", "versions": {name: version(name) for name in names}}
            case "prepare":
                return self._prepare(**command)
            case "decode":
                return self._decode(**command)
            case other:
                raise ValueError(f"no command {other!r}")

    def _prepare(self, precision: str, workers: int, rows: int, beams: int) -> dict[str, Any]:
        self._chosen, self._rows, self._beams = (precision, workers), rows, beams
        if self._chosen not in self._translators:
            self._translators[self._chosen] = ctranslate2.Translator(
                str(self._model), device="cpu", compute_type=precision, inter_threads=workers, intra_threads=1
            )
        return {"compute_type": self._translators[self._chosen].compute_type}

    def _decode(self, sources: Sequence[Sequence[int]], length: int, answers: bool = False) -> dict[str, Any]:
        """A length of 0 lets every sentence end where it ends."""
        translator = self._translators[self._chosen]
        tokens = [[str(index) for index in source] for source in sources]
        began, processor = time.perf_counter(), time.process_time()
        results = translator.translate_batch(
            tokens,
            max_batch_size=self._rows,
            batch_type="examples",
            beam_size=self._beams,
            num_hypotheses=1,
            length_penalty=1.0,
            min_decoding_length=length or 1,
            max_decoding_length=length or LONGEST,
            return_scores=True,
            return_attention=True,
            use_vmap=self._mapped,
        )
        seconds, processor = time.perf_counter() - began, time.process_time() - processor
        found = [[int(token) for token in result.hypotheses[0]] for result in results]
        timed = {"seconds": seconds, "processor_seconds": processor, "tokens": sum(map(len, found))}
        return {**timed, "answers": found} if answers else timed


def serve(bench: TranslatorBench, commands: TextIO, answers: TextIO) -> None:
    """Answer commands until there are no more; what cannot be done is answered with {"error": ...}."""
    for line in commands:
        try:
            answer = bench.answer(json.loads(line))
        except (ValueError, TypeError, RuntimeError) as problem:
            answer = {"error": str(problem)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def main() -> int:
    """Serve standard input and output."""
    parser = argparse.ArgumentParser(description="Decode for a benchmark with CTranslate2.")
    parser.add_argument("checkpoint", type=Path, help="folder with model.safetensors and config.json")
    parser.add_argument("--vocabulary-map", type=Path, help="tokens to search among, as CTranslate2 reads them")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="regard-") as folder:
        model = Path(folder, "model")
        try:
            convert(arguments.checkpoint, model, arguments.vocabulary_map)
        except (OSError, KeyError, ValueError) as problem:
            sys.stderr.write(f"{problem}\n")
            return 1
        # Nothing but answers goes out, whatever a library may print.
        with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
            os.dup2(2, 1)
            serve(TranslatorBench(model, mapped=arguments.vocabulary_map is not None), sys.stdin, answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
