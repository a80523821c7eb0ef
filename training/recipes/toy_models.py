"""Small models for the toys: one for every rung of the ladder, at sizes that learn in seconds."""

from typing import Literal

from regard.training.families import TrainedModel
from regard.training.models.rnn import Rnn, RnnConfig
from regard.training.models.transformer import Transformer, TransformerConfig

# Recurrent: without attention, with one context for all steps, with additive attention (GRU, then LSTM).
Rung = Literal["no_attention", "fixed", "attention", "lstm", "transformer"]
RUNGS: tuple[Rung, ...] = ("no_attention", "fixed", "attention", "lstm", "transformer")


def toy_model(
    rung: Rung,
    vocabulary: int,
    output: int,
    *,
    readout: Literal["mlp", "linear"] = "mlp",
    feed_forward: int = 128,
    layers: int = 2,
    dropout: float = 0.0,
) -> TrainedModel:
    """Return an untrained model; feed_forward and layers, on either side, are the Transformer's.

    Raises ValueError for an unknown rung.
    """
    if rung not in RUNGS:
        raise ValueError(f"rung is {rung!r}, but it is one of {', '.join(RUNGS)}.")
    if rung == "transformer":
        return Transformer(
            TransformerConfig(
                vocabulary=vocabulary,
                output=output,
                dim=32,
                heads=2,
                feed_forward=feed_forward,
                encoder_layers=layers,
                decoder_layers=layers,
                dropout=dropout,
            )
        )
    return Rnn(
        RnnConfig(
            vocabulary=vocabulary,
            output=output,
            embedding=32,
            encoder=32,
            decoder=64,
            attention=32,
            dropout=dropout,
            context="none" if rung == "no_attention" else "fixed" if rung == "fixed" else "attention",
            cell="lstm" if rung == "lstm" else "gru",
            readout=readout,
        )
    )
