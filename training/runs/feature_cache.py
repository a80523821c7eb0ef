"""Keeps the feature maps of pictures on disk, since a frozen backbone makes the same ones in every epoch."""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from tqdm import tqdm

from regard.atomic import replacing
from regard.training.models.vision import Backbone, Pixels

_BATCH = 16


class FeatureCache:
    """Maps of pictures by name, float16 on disk."""

    def __init__(self, names: Sequence[str], maps: NDArray[np.float16]) -> None:
        self._places = {name: place for place, name in enumerate(names)}
        self._maps = maps

    def get(self, names: Sequence[str]) -> Tensor:
        """Return the maps of some pictures, float32 [picture, position, channel]."""
        return torch.from_numpy(self._maps[[self._places[name] for name in names]].astype(np.float32))  # pyright: ignore[reportUnknownMemberType]  half typed


def find_cache(folder: Path, backbone: Backbone, names: Sequence[str]) -> FeatureCache | None:
    """Return the maps that a folder has of these pictures by this very backbone, None where it has none."""
    path = _path(folder, backbone, names)
    return _open(path, backbone, names) if path.is_file() else None


def open_cache(
    folder: Path,
    backbone: Backbone,
    names: Sequence[str],
    load: Callable[[Sequence[str]], Iterable[Pixels]],
    *,
    say: Callable[[str], object],
) -> FeatureCache:
    """Return the maps of pictures, from a folder where it has them of this very backbone, else made and written there.

    load yields the pixels of the pictures named, in order. The file appears whole or not at all.
    """
    path = _path(folder, backbone, names)
    if not path.is_file():
        shape = _shape(backbone, names)
        folder.mkdir(parents=True, exist_ok=True)
        say(f"computing the feature maps of {len(names)} pictures into {path}, {math.prod(shape) * 2 / 1e6:.0f} MB")
        with replacing(path) as partial:
            _fill(np.lib.format.open_memmap(partial, mode="w+", dtype=np.float16, shape=shape), backbone, load(names))
    return _open(path, backbone, names)


def _open(path: Path, backbone: Backbone, names: Sequence[str]) -> FeatureCache:
    maps: NDArray[np.float16] = np.load(path, mmap_mode="r")
    if maps.shape != _shape(backbone, names) or maps.dtype != np.float16:
        raise ValueError(f"{path} is not what it is named for: delete it, and it is made anew.")
    return FeatureCache(names, maps)


def _shape(backbone: Backbone, names: Sequence[str]) -> tuple[int, int, int]:
    return len(names), backbone.rows * backbone.columns, backbone.channels


def _path(folder: Path, backbone: Backbone, names: Sequence[str]) -> Path:
    """Return the file of maps that depend on all that its name is made of."""
    config = backbone.config
    settings = {
        "backbone": [config.name, config.stage, config.height, config.width],
        "weights": _weights_digest(backbone),
        "pictures": hashlib.sha256("\n".join(names).encode()).hexdigest(),
    }
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]
    return folder / f"features-{digest}.npy"


@torch.inference_mode()
def _fill(maps: NDArray[np.float16], backbone: Backbone, pictures: Iterable[Pixels]) -> None:
    pending: list[Pixels] = []
    done = 0
    with tqdm(total=len(maps), desc="feature maps", unit="picture", mininterval=5) as progress:
        for pixels in pictures:
            pending.append(pixels)
            if len(pending) == _BATCH or done + len(pending) == len(maps):
                features = backbone(torch.from_numpy(np.stack(pending)))  # pyright: ignore[reportUnknownMemberType]  half typed
                maps[done : done + len(pending)] = features.numpy()
                done += len(pending)
                progress.update(len(pending))
                pending.clear()
    if done < len(maps):
        raise ValueError(f"Only {done} of {len(maps)} pictures came.")


def _weights_digest(network: nn.Module) -> str:
    """Return the SHA-256 of a network's weights, in hexadecimal."""
    digest = hashlib.sha256()
    for name, parameter in network.named_parameters():
        digest.update(name.encode())
        digest.update(parameter.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
