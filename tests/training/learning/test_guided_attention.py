"""A head that is taught to align: by which links, and that it learns."""

# torch types tolist, manual_seed and backward only in part.
# pyright: reportUnknownMemberType=false

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.training.data.toy_data import make_toy
from regard.training.data.translation_data import Corpus, Example, collate
from regard.training.data.vocabulary import END, Vocabulary
from regard.training.decoding.search import SearchConfig
from regard.training.learning import checkpoint
from regard.training.learning.fit import Hardware
from regard.training.learning.guidance import Guidance, GuidanceConfig, guided_cross_entropy, learn_guidance
from regard.training.learning.lexicon import Lexicon, LexiconConfig, learn_lexicon
from regard.training.learning.recipe import GoldAlignments
from regard.training.recipes.toy_models import toy_model
from regard.training.recipes.toys import toy_copy, toy_reverse_transformer
from regard.training.runs.translation import evaluate, train
from regard.training.studies.heads import main

SECOND_END = 30
# What each source entry means, and one that says nothing and stands everywhere.
MEANINGS = {number: number + 10 for number in range(4, 12)}
FILLER = 25


def pairs(end: int = END, *, shift: int = 0) -> list[Example]:
    """Sources with their words' meanings behind one another, an entry without a counterpart before them."""
    rng = random.Random(3)
    made: list[Example] = []
    for _ in range(200):
        words = rng.sample(sorted(MEANINGS), k=rng.randint(1, 5))
        target = [MEANINGS[word] if not shift else MEANINGS[4 + (word - 4 + shift) % 8] for word in words]
        made.append(([*words, end], [FILLER, *target, END]))
    return made


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    """What is learnt of the pairs."""
    return learn_lexicon(pairs(), LexiconConfig(), vocabulary=32)


@pytest.fixture(scope="module")
def guide() -> Guidance:
    """What guides by pairs of two languages, the second one with other meanings."""
    examples = [*pairs(), *pairs(SECOND_END, shift=3)]
    return learn_guidance(examples, GuidanceConfig(layer=0, head=1), vocabulary=32)


def test_words_are_linked_with_their_meanings_and_what_has_none_with_nothing(lexicon: Lexicon) -> None:
    source, target = torch.tensor([[4, 9, 6]]), torch.tensor([[FILLER, 14, 19, 16]])
    links = lexicon.links(source, torch.tensor([3]), target, torch.tensor([4]))
    assert links[0].nonzero().tolist() == [[1, 0], [2, 1], [3, 2]]


def test_what_was_never_seen_together_is_not_linked(lexicon: Lexicon) -> None:
    source, target = torch.tensor([[31, 4]]), torch.tensor([[29, 14]])
    links = lexicon.links(source, torch.tensor([2]), target, torch.tensor([2]))
    assert links[0].nonzero().tolist() == [[1, 1]]


def test_a_lexicon_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="there are none"):
        learn_lexicon([([END], [END])], LexiconConfig(), vocabulary=4)


@pytest.mark.parametrize("settings", [{"first_rounds": 0}, {"tension": -1.0}, {"nothing": 0.0}, {"least": 1.0}])
def test_impossible_lexicons_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="is "):
        LexiconConfig(**settings)  # pyright: ignore[reportArgumentType]  settings of any type


def test_links_do_not_depend_on_padding_and_there_are_none_on_it(guide: Guidance) -> None:
    short, long = ([4, 9, END], [FILLER, 14, 19, END]), ([5, 6, 7, 8, END], [FILLER, 15, 16, 17, 18, END])
    alone = guide.links(collate([short]))[0]
    together = guide.links(collate([short, long]))[0]
    assert alone.any()
    assert torch.equal(together[:4, :3], alone)
    assert together.sum() == alone.sum()


def test_ends_are_linked_with_nothing(guide: Guidance) -> None:
    links = guide.links(collate([([4, 9, END], [FILLER, 14, 19, END])]))[0]
    assert not links[-1].any()
    assert not links[:, -1].any()


def test_each_target_language_has_a_lexicon_of_its_own(guide: Guidance) -> None:
    target = [FILLER, MEANINGS[4], MEANINGS[7], END]
    first, second = guide.links(collate([([4, 7, END], target), ([4, 7, SECOND_END], target)]))
    assert first.nonzero().tolist() == [[1, 0], [2, 1]]
    assert second.nonzero().tolist() == [[2, 0]]


def test_a_language_without_lexicon_has_no_links(guide: Guidance) -> None:
    assert not guide.links(collate([([4, 9, 31], [FILLER, 14, 19, END])])).any()


def test_loss_is_the_mean_cross_entropy_of_linked_tokens() -> None:
    weights = torch.tensor([[[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]]])
    links = torch.tensor([[[True, True, False], [False, False, False], [False, False, True]]])
    expected = -(0.5 * torch.tensor([0.5, 0.25]).log().sum() + torch.tensor(0.6).log()) / 2
    torch.testing.assert_close(guided_cross_entropy(weights, links), expected)


def test_tokens_without_a_link_have_no_gradient() -> None:
    energy = torch.randn(2, 3, 4, requires_grad=True)
    links = torch.zeros(2, 3, 4, dtype=torch.bool)
    links[0, 1, 2] = True
    guided_cross_entropy(energy.softmax(dim=2), links).backward()
    assert energy.grad is not None
    assert energy.grad.abs().sum(dim=2).nonzero().tolist() == [[0, 1]]


def test_a_batch_without_links_asks_for_nothing() -> None:
    energy = torch.randn(1, 2, 3, requires_grad=True)
    loss = guided_cross_entropy(energy.softmax(dim=2), torch.zeros(1, 2, 3, dtype=torch.bool))
    loss.backward()
    assert loss == 0
    assert energy.grad is not None
    assert not energy.grad.any()


def test_weights_of_zero_have_a_finite_loss_and_gradient() -> None:
    weights = torch.tensor([[[0.0, 1.0]]], requires_grad=True)
    loss = guided_cross_entropy(weights, torch.tensor([[[True, False]]]))
    loss.backward()
    assert loss.isfinite()
    assert weights.grad is not None
    assert weights.grad.isfinite().all()


def test_only_the_taught_head_is_compared(guide: Guidance) -> None:
    links = torch.zeros(1, 1, 2, dtype=torch.bool)
    links[0, 0, 1] = True
    attention = torch.zeros(1, 1, 1, 2, 2)
    attention[..., 0, 0] = 1.0
    attention[..., 1, 1] = 1.0
    assert guide.loss(attention, links) == pytest.approx(0.0, abs=1e-6)
    assert [int(count) for count in guide.agreement(attention, links)] == [1, 1]


def test_with_a_lag_the_step_that_is_fed_a_token_is_compared(guide: Guidance) -> None:
    later = Guidance(replace(guide.config, lag=1), guide.lexicons)
    links = torch.zeros(1, 3, 2, dtype=torch.bool)
    links[0, 0, 1] = links[0, 1, 0] = True
    attention = torch.zeros(1, 3, 1, 2, 2)
    for step, place in enumerate([0, 1, 0]):
        attention[0, step, 0, 1, place] = 1.0
    assert later.loss(attention, links) == pytest.approx(0.0, abs=1e-6)
    assert [int(count) for count in later.agreement(attention, links)] == [2, 2]
    assert guide.loss(attention, links) > 1


@pytest.mark.parametrize("settings", [{"layer": -1}, {"head": -1}, {"weight": 0.0}, {"lag": 2}])
def test_impossible_guidance_is_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="is "):
        GuidanceConfig(**{"layer": 0, "head": 0, **settings})  # pyright: ignore[reportArgumentType]  wrong on purpose


def test_a_taught_head_aligns_and_is_named(tmp_path: Path) -> None:
    lines = [
        f"{pair.source}\t{pair.target}\t{' '.join(f'{place}-{place}' for place in range(len(pair.source.split())))}\n"
        for pair in make_toy("copy", longest=4).test
    ]
    (tmp_path / "gold.tsv").write_text("".join(lines))

    def read(_: Path) -> Corpus:
        return make_toy("copy", longest=4)

    toy = toy_reverse_transformer()
    recipe = replace(
        toy,
        read=read,
        guidance=GuidanceConfig(layer=1, head=0),
        batches=replace(toy.batches, tokens=200),
        fit=replace(toy.fit, epochs=6, monitor="valid_agreement"),
        measured_sources=10,
        alignments=(GoldAlignments(file="gold.tsv"),),
    )
    train(recipe, data=tmp_path, out=tmp_path / "run", hardware=Hardware(accelerator="cpu", threads=1))
    found = checkpoint.load(tmp_path / "run" / "best")
    assert found.alignment_heads == ((1, 0),)
    assert found.metrics["valid_agreement"] > 90
    figures = evaluate(recipe, data=tmp_path, folder=tmp_path / "run" / "best", config=SearchConfig())
    rates = {figure.metric: figure.value for figure in figures if figure.metric.startswith("aer")}
    assert rates["aer_guided"] < 20
    assert set(rates) == {"aer", "aer_guided"}


def test_a_head_that_the_model_does_not_have_is_named(tmp_path: Path) -> None:
    recipe = replace(toy_copy(), guidance=GuidanceConfig(layer=2, head=0))
    with pytest.raises(ValueError, match=r"layer 2, head 0 to align, but the model has 1 layers and 1 heads"):
        train(recipe, data=tmp_path, out=tmp_path, hardware=Hardware(accelerator="cpu", threads=1))


def test_every_head_of_a_run_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = make_toy("copy", longest=4)
    vocabulary, output = Vocabulary.train(
        [pair.source for pair in corpus.train], [pair.target for pair in corpus.train], size=64
    )
    model = toy_model("transformer", vocabulary.size, output).eval()
    found = checkpoint.Checkpoint(
        recipe="toy_reverse_transformer",
        model=model,
        vocabulary=vocabulary,
        metrics={},
        provenance={},
        alignment_heads=((1, 0),),
    )
    checkpoint.save(tmp_path / "best", found)
    assert main([str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "| lexicon | links " in shown
    assert [line.split(" |")[0] for line in shown.splitlines()[3:]] == [
        "| mean of all",
        "| layer 0, head 0",
        "| layer 0, head 1",
        "| layer 1, head 0 (taught)",
        "| layer 1, head 1",
    ]
    assert main([str(tmp_path / "none")]) == 1
    assert "holds no checkpoint" in capsys.readouterr().err
