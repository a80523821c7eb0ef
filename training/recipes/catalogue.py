"""Lists all recipes by name."""

from collections.abc import Callable, Mapping

from regard.training.learning.recipe import CaptionRecipe, Recipe
from regard.training.recipes.captions import (
    flickr8k_attention,
    flickr8k_fine_grid,
    flickr8k_fine_tuned,
    flickr8k_self_attention,
    flickr8k_self_critical,
    flickr8k_transformer,
    toy_squares,
    toy_squares_lstm,
    toy_squares_transformer,
)
from regard.training.recipes.toys import (
    toy_copy,
    toy_reverse,
    toy_reverse_fixed,
    toy_reverse_lstm,
    toy_reverse_plain,
    toy_reverse_transformer,
)
from regard.training.recipes.translation import (
    en_es_rnn,
    en_xx_aligned,
    en_xx_everyday,
    en_xx_transformer,
    multi30k_attention,
    multi30k_attention_rewarded,
    multi30k_attention_taught,
    multi30k_fixed,
    multi30k_plain,
    multi30k_transformer,
    multi30k_transformer_rewarded,
)

TRANSLATION_RECIPES: Mapping[str, Callable[[], Recipe]] = {
    recipe.__name__: recipe
    for recipe in (
        en_es_rnn,
        en_xx_transformer,
        en_xx_aligned,
        en_xx_everyday,
        multi30k_plain,
        multi30k_fixed,
        multi30k_attention,
        multi30k_transformer,
        multi30k_attention_rewarded,
        multi30k_attention_taught,
        multi30k_transformer_rewarded,
        toy_reverse,
        toy_copy,
        toy_reverse_plain,
        toy_reverse_fixed,
        toy_reverse_lstm,
        toy_reverse_transformer,
    )
}
CAPTION_RECIPES: Mapping[str, Callable[[], CaptionRecipe]] = {
    recipe.__name__: recipe
    for recipe in (
        flickr8k_attention,
        flickr8k_fine_tuned,
        flickr8k_self_critical,
        flickr8k_self_attention,
        flickr8k_fine_grid,
        flickr8k_transformer,
        toy_squares,
        toy_squares_lstm,
        toy_squares_transformer,
    )
}
RECIPES: Mapping[str, Callable[[], Recipe | CaptionRecipe]] = {**TRANSLATION_RECIPES, **CAPTION_RECIPES}
