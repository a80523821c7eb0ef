"""Requests are made from plain arguments; what could not be sent is refused in words."""

import pytest

from regard.client.requests import AttentionQuery, score_request, translate_request


def test_a_lone_surrogate_is_refused_before_the_wire() -> None:
    with pytest.raises(ValueError, match=r"texts\[1\]: character 2 is the lone surrogate U\+D800"):
        translate_request(["good", "ab\ud800"])


def test_a_lone_surrogate_in_a_pair_is_refused() -> None:
    with pytest.raises(ValueError, match=r"pairs\[0\]\.target"):
        score_request([("good", "\udfff")])


def test_a_string_in_place_of_a_list_is_refused() -> None:
    with pytest.raises(TypeError, match="for one text write"):
        translate_request("one text")


def test_unknown_options_are_refused() -> None:
    with pytest.raises(TypeError, match="no option 'beam'"):
        translate_request(["one"], beam=5)  # type: ignore[call-arg]  # the point of the test


def test_options_of_translate_are_refused_by_score() -> None:
    with pytest.raises(TypeError, match="no option 'beam_size'"):
        score_request([("one", "uno")], beam_size=5)  # type: ignore[call-arg]  # the point of the test


def test_none_means_the_default() -> None:
    request = translate_request(["one"], beam_size=None, target_language=None, attention=None)
    assert not request.decoding.HasField("beam_size")
    assert not request.HasField("target_language")
    assert not request.HasField("attention")


def test_zero_is_not_the_default() -> None:
    request = translate_request(["one"], beam_size=0, length_penalty=0.0)
    assert request.decoding.HasField("beam_size")
    assert request.decoding.HasField("length_penalty")


def test_an_unknown_granularity_is_refused() -> None:
    with pytest.raises(ValueError, match="it can be subword, word"):
        AttentionQuery(granularity="letter")  # type: ignore[arg-type]  # the point of the test
