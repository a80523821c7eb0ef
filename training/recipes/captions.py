"""Names the captioning runs that can be repeated: each recipe is a function that returns all settings.

It does not know how a run is carried out. Each imports what it needs when it is called, so that a command can list them
without loading torch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from regard.training.learning.recipe import CaptionRecipe

if TYPE_CHECKING:
    from regard.training.models.captioner import Captioner, DecoderName


_FLICKR8K_LICENCE = (
    "for research and non-commercial use only, like Flickr8k (Hodosh, Young and Hockenmaier 2013), whose captions it "
    "learnt; the photographs belong to their authors on Flickr. The convolutions are EfficientNet-Lite0's for "
    "ImageNet, Apache-2.0"
)
_FLICKR8K_LIMITS = (
    "The model has seen everyday photographs, most of them of people and dogs out of doors, and nothing else: expect "
    "poor results on drawings, documents, screens and other scenes, on small things, on counts and on text within "
    "pictures. It takes over what people who described pictures took for granted of those they saw."
)


def flickr8k_attention() -> CaptionRecipe:
    """Captions of Flickr8k, recurrent with additive attention over the cells of a feature map."""
    return _flickr8k("flickr8k_attention")


def flickr8k_fine_tuned() -> CaptionRecipe:
    """Captions of Flickr8k, recurrent with additive attention, the last blocks of the backbone learning too.

    It goes on from a run of flickr8k_attention.
    """
    from regard.training.learning.fit import FitConfig

    return replace(
        flickr8k_attention(),
        name="flickr8k_fine_tuned",
        starts_from="flickr8k_attention",
        fine_tuned=5,  # the head, and all that was widest before it
        fit=FitConfig(
            epochs=4,
            learning_rate=2e-4,
            warm_up=0.1,
            average_decay=0.995,  # over fewer updates than 0.999 remembers
            monitor="valid_bleu4",
            higher_is_better=True,
            seed=2,  # other batches than the first epochs of the run that it starts from
        ),
    )


def flickr8k_self_critical() -> CaptionRecipe:
    """Captions of Flickr8k, recurrent with additive attention, rewarded for what it says itself.

    It goes on from a run of flickr8k_fine_tuned, whose backbone it leaves as it is.
    """
    from regard.training.learning.fit import FitConfig

    return replace(
        flickr8k_attention(),
        name="flickr8k_self_critical",
        starts_from="flickr8k_fine_tuned",
        self_critical=True,
        coverage=0.0,
        fit=FitConfig(
            epochs=4,
            learning_rate=2e-4,
            average_decay=0.998,
            monitor="valid_bleu1",
            higher_is_better=True,
            seed=3,  # other batches than the runs before
        ),
    )


def flickr8k_self_attention() -> CaptionRecipe:
    """Captions of Flickr8k, recurrent, over a map whose cells have looked at each other first."""
    return _flickr8k("flickr8k_self_attention", self_attention=True)


def flickr8k_fine_grid() -> CaptionRecipe:
    """Captions of Flickr8k, recurrent, over the 14 x 14 cells of an earlier stage of the backbone."""
    return _flickr8k("flickr8k_fine_grid", stage="middle")


def flickr8k_transformer() -> CaptionRecipe:
    """Captions of Flickr8k, the decoder of a Transformer over the map."""
    return _flickr8k("flickr8k_transformer", decoder="transformer", learning_rate=8e-4, coverage=0.0)


def _flickr8k(
    name: str,
    *,
    decoder: DecoderName = "gru",
    stage: str = "head",
    self_attention: bool = False,
    learning_rate: float = 1.5e-3,
    coverage: float = 0.1,  # on 49 cells; Xu et al. 2015 take 1 on 196, which asks for less
) -> CaptionRecipe:
    from regard.training.data.caption_data import CaptionBatchConfig, read_flickr8k
    from regard.training.learning.fit import FitConfig
    from regard.training.models.captioner import Captioner, CaptionerConfig

    def model(vocabulary: int, output: int) -> Captioner:
        return Captioner(
            CaptionerConfig(
                vocabulary=vocabulary,
                output=output,
                stage=stage,
                decoder=decoder,
                self_attention=self_attention,
                places=decoder == "transformer",
                values=384,
                dropout=0.35,
            )
        )

    return CaptionRecipe(
        name=name,
        read=read_flickr8k,
        vocabulary=3500,
        model=model,
        batches=CaptionBatchConfig(),
        fit=FitConfig(epochs=14, learning_rate=learning_rate, monitor="valid_bleu4", higher_is_better=True, patience=4),
        coverage=coverage,
        licence=_FLICKR8K_LICENCE,
        known_limits=_FLICKR8K_LIMITS,
    )


def toy_squares() -> CaptionRecipe:
    """Colour and place of one square on a plain ground, learnt in seconds, to try captions out."""
    return _toy_squares("toy_squares", "gru")


def toy_squares_lstm() -> CaptionRecipe:
    """Colour and place of one square, by an LSTM over a map whose cells have looked at each other first."""
    return _toy_squares("toy_squares_lstm", "lstm", self_attention=True)


def toy_squares_transformer() -> CaptionRecipe:
    """Colour and place of one square, by the decoder of a Transformer."""
    return _toy_squares("toy_squares_transformer", "transformer")


def _toy_squares(name: str, decoder: DecoderName, *, self_attention: bool = False) -> CaptionRecipe:
    from regard.training.data.caption_data import CaptionBatchConfig
    from regard.training.data.toy_pictures import CELLS, SIDE, make_squares
    from regard.training.learning.fit import FitConfig
    from regard.training.models.captioner import Captioner, CaptionerConfig

    def model(vocabulary: int, output: int) -> Captioner:
        return Captioner(
            CaptionerConfig(
                vocabulary=vocabulary,
                output=output,
                backbone="patches",
                stage=str(SIDE // CELLS),
                height=SIDE,
                width=SIDE,
                decoder=decoder,
                self_attention=self_attention,
                places=True,
                values=32,
                embedding=32,
                hidden=48,
                attention=32,
                layers=1,
                heads=2,
                feed_forward=64,
                dropout=0.0,
            )
        )

    return CaptionRecipe(
        name=name,
        read=lambda _: make_squares(),
        needs_data=False,
        vocabulary=120,
        model=model,
        batches=CaptionBatchConfig(captions=1, longest=12),
        fit=FitConfig(
            epochs=10,
            learning_rate=3e-3,
            label_smoothing=0.0,
            average_decay=0.9,
            monitor="valid_bleu4",
            higher_is_better=True,
        ),
        licence="Apache-2.0",
    )
