"""Lists the families of models: a family's name -> its configuration and its model.

A new family is registered here and nowhere else; `docs/adding-a-model.md` shows how. The name is what checkpoints keep
in `config.json` under `model.kind`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from regard.training.models.captioner import Captioner, CaptionerConfig
from regard.training.models.protocol import ExportableModel, ModelConfig, SequenceModel
from regard.training.models.rnn import Rnn, RnnConfig
from regard.training.models.transformer import Transformer, TransformerConfig

TrainedModel: TypeAlias = Rnn | Transformer | Captioner


class FamilyError(ValueError):
    """A model belongs to no family, or lacks what every family has; the message says which."""


class Family(NamedTuple):
    """What a checkpoint of a family is read with."""

    config: type[ModelConfig]  # a frozen dataclass
    model: Callable[[Any], TrainedModel]  # the class, called with its configuration


FAMILIES: dict[str, Family] = {
    "rnn": Family(RnnConfig, Rnn),
    "transformer": Family(TransformerConfig, Transformer),
    "captioner": Family(CaptionerConfig, Captioner),
}


def family_of(model: object) -> str:
    """Return the name of a model's family.

    Raises FamilyError for a model that `FAMILIES` does not list, and for one that lacks a member of `ExportableModel`.
    Call it before training: a model that cannot be saved or exported is better refused before the first epoch.
    """
    name = next((name for name, family in FAMILIES.items() if type(model) is family.model), None)
    if name is None:
        raise FamilyError(
            f"{type(model).__name__} belongs to no family of models: list it with its configuration in "
            f"training/families.py, which has {', '.join(FAMILIES)}."
        )
    missing = [member for member in _members() if not hasattr(model, member)]
    if missing:
        raise FamilyError(
            f"{type(model).__name__} lacks {', '.join(missing)}: training/models/protocol.py says what every "
            "family has."
        )
    return name


def _members() -> list[str]:
    """Return the names of all that a family's model has to have."""
    return [name for protocol in (SequenceModel, ExportableModel) for name in vars(protocol) if name[0] != "_"]
