"""Shows what keys and values do, by exchanging those of two words in a trained model.

Run it by `python -m regard.training.studies.key_value`.
It does not know which model it is given: anything whose memory has keys and values that attention looks at.
"""

# torch and matplotlib type tolist and what draws only in part.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor

from regard.training.data.vocabulary import BEGIN, Vocabulary
from regard.training.learning import checkpoint
from regard.training.models.protocol import Memory, SequenceModel

Part = Literal["keys", "values"]
EXCHANGES: tuple[tuple[str, tuple[Part, ...]], ...] = (
    ("as trained", ()),
    ("keys exchanged", ("keys",)),
    ("values exchanged", ("values",)),
    ("both exchanged", ("keys", "values")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NextWord:
    """One step of a model: where it looked and what it would say next."""

    exchange: str
    weights: Tensor  # [layer, head, source]
    log_probabilities: Tensor  # [output]


def exchange(memory: Memory, longer: Memory, parts: Sequence[Part], first: int, second: int) -> Memory:
    """Return memory with the keys or values, or both, of two source positions exchanged in all layers and heads.

    `longer` is the memory of a source one token longer: the axis in which a tensor of it differs is the source's.
    Raises ValueError where the memory has no such part.
    """
    tensors = cast(Any, memory)._asdict()
    for part in parts:
        names = [name for name in tensors if name.startswith(part)]
        if not names:
            raise ValueError(f"This memory has no {part}, only {', '.join(tensors)}.")
        for name in names:
            kept, other = tensors[name], getattr(longer, name)
            axis = next(axis for axis in range(kept.dim()) if kept.shape[axis] != other.shape[axis])
            order = torch.arange(kept.shape[axis], device=kept.device)
            order[[first, second]] = order[[second, first]]
            tensors[name] = kept.index_select(axis, order)
    return cast(Any, type(memory))(**tensors)


@torch.inference_mode()
def step_with_exchanges(
    model: SequenceModel[Any, Any], source: Sequence[int], target: Sequence[int], first: int, second: int
) -> list[NextWord]:
    """Lead the model through target with its memory as it is, then take its next step with each exchange.

    source is ids with the end entry, target ids without it; first and second are source positions.
    """
    length = len(source)
    memory, state = model.encode(torch.tensor([source]), torch.tensor([length]))
    longer, _ = model.encode(torch.tensor([[*source, source[-1]]]), torch.tensor([length + 1]))
    fed = [BEGIN, *target]
    for token in fed[:-1]:
        _, state, _ = model.step(torch.tensor([token]), state, memory)
    found: list[NextWord] = []
    for name, parts in EXCHANGES:
        exchanged = exchange(memory, longer, parts, first, second)
        scores, _, weights = model.step(torch.tensor([fed[-1]]), state, exchanged)
        found.append(NextWord(exchange=name, weights=weights[0], log_probabilities=scores[0]))
    return found


def position(vocabulary: Vocabulary, text: str, word: str) -> int:
    """Return where the ids of a text have a word; ValueError where it does not occur or is more than one piece."""
    start = text.find(word)
    _, spans = vocabulary.encode_with_spans(text)
    # A piece may begin with the space before it.
    found = [
        place
        for place, (left, right) in enumerate(spans)
        if left < right and start <= left + (text[left] == " ") and right <= start + len(word)
    ]
    if start < 0 or len(found) != 1:
        raise ValueError(f"{word!r} has {len(found)} pieces of {text!r}, but only words of one piece can be exchanged.")
    return found[0]


def next_words(vocabulary: Vocabulary, look: NextWord, count: int = 2) -> str:
    """Return the most probable next pieces with their probabilities, after the first one only likely ones."""
    best = look.log_probabilities.topk(count)
    pieces = [_piece(vocabulary, int(index)) for index in best.indices]
    named = list(zip(pieces, best.values.exp().tolist(), strict=True))
    return ", ".join(
        f"{piece} {value:.2f}" for piece, value in named[:1] + [pair for pair in named[1:] if pair[1] > 0.02]
    )


def table(vocabulary: Vocabulary, found: Sequence[NextWord], words: dict[str, int], layer: int, head: int) -> str:
    """Return in Markdown, for each exchange, the weights on the words and what would come next."""
    lines = [f"| | looks at {' | looks at '.join(words)} | would say |", "|---|" + "---|" * (len(words) + 1)]
    for look in found:
        weights = [f"{float(look.weights[layer, head, place]):.3f}" for place in words.values()]
        lines.append(f"| {look.exchange} | {' | '.join(weights)} | {next_words(vocabulary, look)} |")
    return "\n".join(lines)


def draw(
    vocabulary: Vocabulary, found: Sequence[NextWord], pieces: Sequence[str], at: tuple[int, int], path: Path
) -> None:
    """Draw the weights of a layer and head, a row for each exchange, with the words that would come next beside it."""
    from matplotlib.figure import Figure  # here, because nothing else needs it and it loads slowly

    layer, head = at
    rows = torch.stack([look.weights[layer, head] for look in found])
    figure = Figure(figsize=(0.8 * len(pieces) + 4.2, 2.9), layout="constrained")
    axes = figure.subplots()
    # One hue from light to dark, which every kind of colour vision and every printer keeps in order.
    axes.imshow(rows.numpy(), cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (row, column), weight in zip(
        [(row, column) for row in range(rows.shape[0]) for column in range(rows.shape[1])],
        rows.flatten().tolist(),
        strict=True,
    ):
        if weight >= 0.005:
            axes.text(column, row, f"{weight:.2f}", ha="center", va="center", color="w" if weight > 0.5 else "k")
    axes.set_yticks(range(len(found)), [look.exchange for look in found])
    axes.set_xticks(range(len(pieces)), pieces)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    for row, look in enumerate(found):
        axes.text(len(pieces) - 0.35, row, next_words(vocabulary, look), va="center")
    axes.text(len(pieces) - 0.35, -0.75, "would say", va="center", style="italic")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, bbox_inches="tight")


def _piece(vocabulary: Vocabulary, index: int) -> str:
    """Return an entry as it is read, without the mark of a word's start."""
    return (vocabulary.tokenizer.id_to_token(index) or "").replace("▁", "")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m regard.training.studies.key_value", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("checkpoint", type=Path, help="folder of a trained model, such as runs/toy/best")
    parser.add_argument("source", help="a text to read")
    parser.add_argument("--exchange", nargs=2, required=True, metavar="WORD", help="words of the text, a piece each")
    parser.add_argument("--after", default="", help="what was said before the step that is looked at")
    parser.add_argument("--language", default="", help="to translate into, where the model knows several")
    parser.add_argument("--layer", type=int, default=0, help="whose weights are shown (default: the first)")
    parser.add_argument("--head", type=int, default=0, help="whose weights are shown (default: the first)")
    parser.add_argument("--picture", type=Path, help="PNG to draw")
    args = parser.parse_args(argv)
    try:
        loaded = checkpoint.load(args.checkpoint)
        vocabulary = loaded.vocabulary
        words = {word: position(vocabulary, args.source, word) for word in args.exchange}
        source = [*vocabulary.encode(args.source)[:-1], vocabulary.end(args.language)]
        found = step_with_exchanges(
            cast(Any, loaded.model), source, vocabulary.encode(args.after)[:-1], *words.values()
        )
        layers, heads = found[0].weights.shape[:2]
        if not (0 <= args.layer < layers and 0 <= args.head < heads):
            raise ValueError(f"layer is {args.layer} and head {args.head}, but the model has {layers} and {heads}.")
    except (FileNotFoundError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(table(vocabulary, found, words, args.layer, args.head) + "\n")
    if args.picture is not None:
        pieces = [_piece(vocabulary, index) for index in source]
        draw(vocabulary, found, pieces, (args.layer, args.head), args.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
