"""Fits a model to batches with Lightning: schedule, weight averaging, early stopping, going on after an interruption.

It does not know any model, data set or measure by name; it gets them as objects and functions.
"""

import math
import signal
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping, EMAWeightAveraging, ModelCheckpoint, TQDMProgressBar
from lightning.pytorch.loggers import CSVLogger
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from regard.training.data.translation_data import Batch
from regard.training.data.vocabulary import PAD
from regard.training.learning.guidance import Guidance
from regard.training.learning.loss import smoothed_cross_entropy
from regard.training.learning.progress import Pace, Say, draw_curves, silent
from regard.training.learning.self_critical import SelfCritical, weighted_log_loss
from regard.training.models.protocol import SequenceModel


@dataclass(frozen=True, slots=True, kw_only=True)
class FitConfig:
    """How a model is fitted."""

    epochs: int
    learning_rate: float = 2e-3
    warm_up: float = 0.05  # share of all updates over which the rate rises; it then falls as a cosine
    weight_decay: float = 0.01
    label_smoothing: float = 0.1
    gradient_norm: float = 1.0
    average_decay: float = 0.999  # of the moving average of the weights, which is what is evaluated and kept
    monitor: str = "valid_loss"  # what early stopping and the choice of the best epoch look at
    higher_is_better: bool = False
    patience: int = 5  # epochs without anything better
    seed: int = 1

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.patience < 1:
            raise ValueError(f"epochs is {self.epochs} and patience {self.patience}, but both are at least 1.")
        if self.learning_rate <= 0.0 or self.gradient_norm <= 0.0:
            raise ValueError(
                f"learning_rate is {self.learning_rate} and gradient_norm {self.gradient_norm}, but both are positive."
            )
        if not 0.0 <= self.warm_up <= 1.0:
            raise ValueError(f"warm_up is {self.warm_up}, but it is a share of the run, between 0 and 1.")
        for name in ("label_smoothing", "average_decay"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"{name} is {getattr(self, name)}, but it is at least 0 and less than 1.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """Where to compute."""

    accelerator: str = "auto"
    devices: int = 1
    precision: str = "32-true"
    threads: int | None = None  # None: as many as torch takes

    def limit_threads(self) -> None:
        """Let torch compute with no more threads than that, from now on."""
        if self.threads is not None:
            torch.set_num_threads(self.threads)


class Data(Protocol):
    """Batches for training, anew for every epoch, and for validation."""

    def train(self, epoch: int) -> Dataset[Batch]:
        """Return the batches of an epoch, counted from 0."""
        ...

    def valid(self) -> Dataset[Batch]:
        """Return the validation batches."""
        ...


# Given the model, returns figures by name.
Measure: TypeAlias = Callable[[nn.Module], Mapping[str, float]]
# Given attention [row, target, layer, head, source] and its batch, returns what is added to the loss.
Penalty: TypeAlias = Callable[[Tensor, Batch], Tensor]
# Given the model, the number of epochs done, all figures, and whether these weights are the best so far.
Keep: TypeAlias = Callable[[nn.Module, int, Mapping[str, float], bool], None]


class Fitting(pl.LightningModule):
    """Holds the model and says what one update is."""

    def __init__(
        self,
        model: nn.Module,
        config: FitConfig,
        guide: Guidance | None = None,
        penalty: Penalty | None = None,
        critic: SelfCritical | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.config = config
        self.guide = guide
        self.penalty = penalty
        self.critic = critic
        self.measured = ("valid_loss",) if guide is None else ("valid_loss", "valid_agreement")
        self.updates = 0
        self.tokens_seen = 0

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        if self.critic is None:
            loss, attention = self._loss(batch)
        else:
            loss, attention, batch = self._critical(batch, self.critic)
        if self.guide is not None:
            guided = self.guide.loss(attention, self.guide.links(batch))
            self.log("guided_loss", guided, on_step=True, on_epoch=False)
            loss = loss + guided
        if self.penalty is not None:
            penalty = self.penalty(attention, batch)
            self.log("penalty_loss", penalty, on_step=True, on_epoch=False)
            loss = loss + penalty
        self.tokens_seen += int((batch.target_out != PAD).sum())
        self.log("train_loss", loss, prog_bar=True, on_step=True, on_epoch=False)
        return loss

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        tokens = int((batch.target_out != PAD).sum())
        loss, attention = self._loss(batch)
        self.log("valid_loss", loss, batch_size=tokens, prog_bar=True, sync_dist=True)
        if self.guide is not None:
            right, linked = self.guide.agreement(attention, self.guide.links(batch))
            share = 100.0 * right / linked.clamp(min=1)
            self.log("valid_agreement", share, batch_size=int(linked), prog_bar=True, sync_dist=True)

    def configure_optimizers(self) -> Any:
        config = self.config
        optimizer = torch.optim.AdamW(
            self.parameters(),
            lr=config.learning_rate,
            weight_decay=config.weight_decay,
            betas=(0.9, 0.98),
            fused=True,
        )
        self.updates = int(self.trainer.estimated_stepping_batches)
        warm_up = max(round(config.warm_up * self.updates), 1)

        def rate(update: int) -> float:
            if update < warm_up:
                return (update + 1) / warm_up
            # Epochs differ by a few batches, so the last updates may lie beyond the estimate.
            done = min((update - warm_up) / max(self.updates - warm_up, 1), 1.0)
            return 0.5 * (1.0 + math.cos(math.pi * done))

        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def _loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        features, attention = self.model(batch.source, batch.source_length, batch.target_in)
        output = cast(SequenceModel[Any, Any], self.model).output
        loss = smoothed_cross_entropy(
            features,
            output.weight,
            output.bias,
            batch.target_out,
            batch.target_out != PAD,
            smoothing=self.config.label_smoothing,
        )
        return loss, attention

    def _critical(self, batch: Batch, critic: SelfCritical) -> tuple[Tensor, Tensor, Batch]:
        """Return the loss of what the model says itself, the attention that it pays, and that for a batch."""
        model = cast(SequenceModel[Any, Any], self.model)
        # Samples are what would be samples when served, without dropout.
        self.model.eval()
        samples = critic.draw(model, batch)
        self.model.train()
        self.log("reward", samples.reward, prog_bar=True, on_step=True, on_epoch=False)
        features, attention = self.model(samples.batch.source, samples.batch.source_length, samples.batch.target_in)
        return weighted_log_loss(model, features, samples), attention, samples.batch


class _Loaders(pl.LightningDataModule):
    """Hands the trainer the batches of its current epoch."""

    def __init__(self, data: Data) -> None:
        super().__init__()
        self.data = data

    def train_dataloader(self) -> DataLoader[Batch]:
        assert self.trainer is not None
        return DataLoader(self.data.train(self.trainer.current_epoch), batch_size=None, shuffle=False)

    def val_dataloader(self) -> DataLoader[Batch]:
        return DataLoader(self.data.valid(), batch_size=None, shuffle=False)


class _Validation(Callback):
    """Measures the averaged weights after each epoch, keeps them, and draws the curves.

    It has to come before the averaging callback, which puts the raw weights back at the end of validation.
    """

    def __init__(self, config: FitConfig, measure: Measure, keep: Keep, folder: Path, say: Say) -> None:
        self.config = config
        self.measure = measure
        self.keep = keep
        self.folder = folder
        self.say = say
        self.best: float | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.is_global_zero:
            updates = cast(Fitting, pl_module).updates
            self.say(f"{self.config.epochs} epochs of about {updates // self.config.epochs} updates")
        if trainer.current_epoch:
            pl_module.print(f"going on after epoch {trainer.current_epoch}")

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        fitting = cast(Fitting, pl_module)
        model = fitting.model
        figures = dict(self.measure(model))
        for name, value in figures.items():
            pl_module.log(name, value, prog_bar=True, sync_dist=True)
        figures.update({name: float(trainer.callback_metrics[name]) for name in fitting.measured})
        value = figures[self.config.monitor]
        better = self.best is None or (value > self.best if self.config.higher_is_better else value < self.best)
        if better:
            self.best = value
        epoch = trainer.current_epoch + 1
        if trainer.is_global_zero:
            self.keep(model, epoch, figures, better)
        pl_module.print(f"epoch {epoch}: " + ", ".join(f"{name} {value:.3f}" for name, value in figures.items()))

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.is_global_zero and trainer.logger is not None:
            trainer.logger.save()
            draw_curves(self.folder)

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best = state_dict["best"]


def fit(
    model: nn.Module,
    data: Data,
    config: FitConfig,
    *,
    hardware: Hardware,
    folder: Path,
    measure: Measure,
    keep: Keep,
    guide: Guidance | None = None,
    penalty: Penalty | None = None,
    critic: SelfCritical | None = None,
    say: Say = silent,
) -> None:
    """Train a SequenceModel in place, going on from what `folder` holds of an earlier, interrupted run.

    A guide adds its loss for the head that it teaches. With a critic the model learns from its own samples, and from
    the batches' targets only what those are worth. After every epoch `measure` and then `keep` are given the model
    with averaged weights, which it also has at the end. An interruption costs at most the epoch that was going on;
    Ctrl-C raises KeyboardInterrupt.
    """
    pl.seed_everything(config.seed, verbose=False)
    hardware.limit_threads()
    resume = folder / "resume" / "last.ckpt"
    trainer = pl.Trainer(
        accelerator=hardware.accelerator,
        devices=hardware.devices,
        precision=cast(Any, hardware.precision),  # Lightning itself refuses what it does not know
        max_epochs=config.epochs,
        gradient_clip_val=config.gradient_norm,
        logger=CSVLogger(folder, name="log", flush_logs_every_n_steps=100),
        log_every_n_steps=10,
        num_sanity_val_steps=0,
        reload_dataloaders_every_n_epochs=1,
        enable_model_summary=False,
        callbacks=[
            TQDMProgressBar(refresh_rate=1 if sys.stderr.isatty() else 100),
            Pace(),
            _Validation(config, measure, keep, folder, say),
            EMAWeightAveraging(decay=config.average_decay, use_buffers=False),
            EarlyStopping(config.monitor, mode="max" if config.higher_is_better else "min", patience=config.patience),
            ModelCheckpoint(
                dirpath=resume.parent,
                filename=resume.stem,
                save_top_k=1,
                save_on_train_epoch_end=True,
                enable_version_counter=False,
            ),
        ],
    )
    interrupt = signal.getsignal(signal.SIGINT)
    with warnings.catch_warnings():
        # Batches are ready in memory: processes that load them would cost more than they bring.
        warnings.filterwarnings("ignore", message=".*does not have many workers.*")
        # A run that goes on writes where it wrote before.
        warnings.filterwarnings("ignore", message="Checkpoint directory .* exists and is not empty")
        # Validation figures are logged however few batches an epoch has.
        warnings.filterwarnings("ignore", message=".*is smaller than the logging interval.*")
        # Lightning's own use of torch.
        warnings.filterwarnings("ignore", message=".*LeafSpec.*is deprecated.*")
        try:
            trainer.fit(
                Fitting(model, config, guide, penalty, critic),
                datamodule=_Loaders(data),
                ckpt_path=str(resume) if resume.is_file() else None,
                weights_only=True,
            )
        except SystemExit as stopped:
            # Lightning ignores SIGINT from the first Ctrl-C on and exits with status 1, which says that a run failed.
            if not isinstance(stopped.__context__, KeyboardInterrupt):
                raise
            signal.signal(signal.SIGINT, interrupt)
            raise KeyboardInterrupt from stopped
