"""The cases by name: ways in which translators, captioners and their servers are known to fail, each with its trials.

T are about texts, I about images, D about decoding and attention, X about exported graphs, G about gRPC, L about load.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tests.acceptance.case_server import CaseServer, Outcome
from tests.acceptance.decoding_cases import (
    batch_and_beams,
    batch_and_padding,
    beam_sizes,
    n_best,
    nothing_known,
    rows_and_columns,
    scores,
    stops,
    words,
)
from tests.acceptance.image_cases import (
    animations,
    deep_colours,
    endless,
    ink_colours,
    kinds_of_colours,
    maps_of_turned_pictures,
    one_pixel,
    orientations,
    proportions,
    transparency,
)
from tests.acceptance.image_refusals import bombs, no_pictures, not_whole, other_formats
from tests.acceptance.quantised_cases import int8_quality
from tests.acceptance.text_cases import (
    broken_unicode,
    control_characters,
    emoji,
    empty_text,
    normal_forms,
    only_bounded,
    repetition,
    sentences,
    too_long,
)
from tests.acceptance.transport_cases import deadlines, health_under_load, large_messages, load_generator


class Case(NamedTuple):
    """What a case is about, and what tries it on a running server."""

    about: str
    attempt: Callable[[CaseServer], Sequence[Outcome]]


CASES: Mapping[str, Case] = {
    "T01": Case("empty text", empty_text),
    "T03": Case("one word or sign over and over", repetition),
    "T04": Case("longer than the model takes", too_long),
    "T05": Case("an emoji between sentences", emoji),
    "T08": Case("composed and decomposed characters", normal_forms),
    "T10": Case("NUL, escape sequences and other control characters", control_characters),
    "T11": Case("bytes that are no Unicode", broken_unicode),
    "T13": Case(
        "markup",
        only_bounded(
            "T13", "T13_angle_math.txt", "T13_html_inline.txt", "T13_html_nested.txt", "T13_xml_unbalanced.txt"
        ),
    ),
    "T14": Case("placeholders", only_bounded("T14", "T14_placeholders.txt")),
    "T15": Case(
        "numbers, URLs", only_bounded("T15", "T15_numbers_in_text.txt", "T15_numbers_only.txt", "T15_urls.txt")
    ),
    "T16": Case(
        "lower case, title case, capitals", only_bounded("T16", "T16_lower.txt", "T16_title.txt", "T16_upper.txt")
    ),
    "T17": Case("several sentences in one text", sentences),
    "T19": Case("mixed scripts, fragments", only_bounded("T19", "T19_mixed_script.txt", "T19_short_fragment_zh.txt")),
    "I01": Case("CMYK, with and without the Adobe marker", ink_colours),
    "I02": Case("16 bits a channel", deep_colours),
    "I03": Case("grey, two levels, palettes, LAB, real numbers", kinds_of_colours),
    "I04": Case("colours below full transparency", transparency),
    "I06": Case("animations", animations),
    "I08": Case("EXIF orientations", orientations),
    "I10": Case("files that are cut or have wrong checksums", not_whole),
    "I11": Case("decompression bombs", bombs),
    "I13": Case("one pixel", one_pixel),
    "I14": Case("10,000 x 10 pixels", proportions),
    "I15": Case("files that are no pictures", no_pictures),
    "I16": Case("formats that are not read", other_formats),
    "D01": Case("texts after which decoders never stop", stops),
    "D02": Case("captions that do not end", endless),
    "D05": Case("beams, together and alone", batch_and_beams),
    "D06": Case("batches and padding", batch_and_padding),
    "D08": Case("beams too wide, or none", beam_sizes),
    "D09": Case("n-best of short texts", n_best),
    "D11": Case("scores, from the log-probabilities of the tokens", scores),
    "D12": Case("nothing but unknown characters", nothing_known),
    "D14": Case("rows and columns of attention", rows_and_columns),
    "D16": Case("attention between words", words),
    "D17": Case("attention maps of turned pictures", maps_of_turned_pictures),
    "X07": Case("int8 beside floating point", int8_quality),
    "G01": Case("messages above 4 MiB", large_messages),
    "G02": Case("callers who give up", deadlines),
    "G07": Case("health checks under load", health_under_load),
    "L01": Case("a load generator whose callers wait for one another", load_generator),
}
