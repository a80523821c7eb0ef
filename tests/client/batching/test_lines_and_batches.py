"""Lines come out of bytes one for one, and the fault of one text stays its own."""

import threading
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.client.batching.batches import translate_each
from regard.client.batching.lines import MAX_LINE_BYTES, Line, batches_of, read_lines
from regard.client.batching.pipeline import in_order
from regard.client.errors import InvalidRequest, MessageTooLarge, Violation
from regard.v1 import decoding_pb2, translation_pb2


def reader(data: bytes, piece: int) -> Callable[[int], bytes]:
    """Return a `read` that hands out `piece` bytes at a time."""
    rest = memoryview(data)

    def read(_: int) -> bytes:
        nonlocal rest
        head, rest = rest[:piece], rest[piece:]
        return bytes(head)

    return read


def lines_of(data: bytes, piece: int = 1024) -> list[Line]:
    return [line for batch in read_lines(reader(data, piece)) for line in batch]


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))), st.integers(1, 50))
def test_every_line_comes_out_once_in_order(texts: list[str], piece: int) -> None:
    lines = lines_of("".join(f"{text}\n" for text in ("first", *texts)).encode(), piece)
    assert [line.text for line in lines] == ["first", *(text.removesuffix("\r") for text in texts)]
    assert [line.number for line in lines] == list(range(1, len(texts) + 2))


def test_the_last_line_needs_no_end() -> None:
    assert [line.text for line in lines_of(b"one\ntwo")] == ["one", "two"]


def test_blank_lines_are_lines() -> None:
    assert [line.text for line in lines_of(b"\n\none\n\n")] == ["", "", "one", ""]


def test_windows_line_ends_are_no_text() -> None:
    assert [line.text for line in lines_of(b"one\r\n\r\ntwo\r\n")] == ["one", "", "two"]


def test_a_byte_order_mark_is_no_text_where_a_file_begins() -> None:
    assert [line.text for line in lines_of("\ufeffone\n\ufefftwo".encode())] == ["one", "\ufefftwo"]


def test_invalid_utf8_costs_its_own_line_only() -> None:
    one, two, three = lines_of(b"one\nt\xffwo\nthree\n")
    assert (one.text, three.text) == ("one", "three")
    assert two == Line(number=2, text="", error="not valid UTF-8 (byte 2 is 0xff)")


@pytest.mark.parametrize("end", [b"", b"\nnext\n"])
def test_a_line_without_end_does_not_fill_the_memory(end: bytes) -> None:
    data = b"x" * (MAX_LINE_BYTES + 1) + end
    lines = lines_of(data, 1 << 20)
    assert lines[0].error == f"longer than {MAX_LINE_BYTES} bytes"
    assert [line.text for line in lines[1:]] == (["next"] if end else [])


def test_a_stream_that_has_nothing_yet_is_asked_again() -> None:
    pieces = iter([None, b"one\n", None, b"two\n", b""])
    lines = [line.text for batch in read_lines(lambda _: next(pieces)) for line in batch]
    assert lines == ["one", "two"]


def test_lines_are_handed_on_before_more_have_come() -> None:
    pieces = iter([b"one\n"])
    assert next(read_lines(lambda _: next(pieces)))[0].text == "one"


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=100), max_size=100))
def test_batches_are_small_and_lose_nothing(texts: list[str]) -> None:
    batches = list(batches_of(texts))
    assert [line.text for batch in batches for line in batch] == texts
    assert all(1 <= len(batch) <= 32 for batch in batches)


def test_a_batch_is_bounded_in_bytes() -> None:
    batches = list(batches_of(["x" * 100_000] * 4))
    assert [len(batch) for batch in batches] == [1, 1, 1, 1]


def test_an_argument_that_was_not_utf8_has_an_error() -> None:
    ((good, bad),) = batches_of(["one", "\udcff"])
    assert (good.error, bad.error) == (None, "not valid UTF-8")


def reply(*texts: str) -> translation_pb2.TranslateResponse:
    return translation_pb2.TranslateResponse(
        model=decoding_pb2.ModelReference(name="toy"),
        results=[translation_pb2.TranslationResult(text=text.upper()) for text in texts],
    )


@given(st.lists(st.sampled_from(["a", "b", "bad", "c"]), max_size=20))
def test_the_fault_of_one_text_stays_its_own(texts: list[str]) -> None:
    def send(request: translation_pb2.TranslateRequest) -> translation_pb2.TranslateResponse:
        if "bad" in request.texts:
            field = f"texts[{list(request.texts).index('bad')}]"
            raise InvalidRequest("bad text", violations=(Violation(field, "bad text"),))
        return reply(*request.texts)

    replies = translate_each(send, texts)
    assert all(len(each.results) == 1 for each in replies)
    shown = [each.results[0].error.message or each.results[0].text for each in replies]
    assert shown == ["bad text" if text == "bad" else text.upper() for text in texts]


def test_what_is_too_much_for_one_call_is_sent_in_several() -> None:
    sizes: list[int] = []

    def send(request: translation_pb2.TranslateRequest) -> translation_pb2.TranslateResponse:
        sizes.append(len(request.texts))
        if len(request.texts) > 3:
            raise MessageTooLarge("too much")
        return reply(*request.texts)

    replies = translate_each(send, list("abcdefgh"))
    assert [each.results[0].text for each in replies] == list("ABCDEFGH")
    assert sizes == [8, 4, 2, 2, 4, 2, 2]


def test_a_wrong_option_is_no_fault_of_the_texts() -> None:
    def send(request: translation_pb2.TranslateRequest) -> translation_pb2.TranslateResponse:
        raise InvalidRequest("beam", violations=(Violation("decoding.beam_size", "too large"),))

    with pytest.raises(InvalidRequest, match="beam"):
        translate_each(send, ["a", "b"])


@given(st.lists(st.integers(), max_size=40), st.integers(1, 5))
def test_results_keep_the_order_of_the_items(items: list[int], in_flight: int) -> None:
    assert list(in_order(items, lambda item: item + 1, in_flight=in_flight)) == [item + 1 for item in items]


def test_a_slow_item_does_not_let_the_others_pile_up() -> None:
    taken: list[int] = []
    release = threading.Event()

    def items() -> Iterator[int]:
        for item in range(100):
            taken.append(item)
            yield item

    def work(item: int) -> int:
        release.wait(120)
        return item

    results = in_order(items(), work, in_flight=3)
    threading.Timer(0.2, release.set).start()
    assert next(results) == 0
    most = len(taken)
    results.close()
    assert most <= 2 * 3 + 3


def test_a_waiting_source_holds_no_result_back() -> None:
    more = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        more.wait(120)

    results = in_order(items(), lambda item: item, in_flight=2)
    assert next(results) == 1
    more.set()
    assert list(results) == []


def test_what_the_work_raises_comes_in_its_place() -> None:
    def work(item: int) -> int:
        if item == 2:
            raise LookupError("two")
        return item

    results = in_order([0, 1, 2, 3], work, in_flight=2)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(LookupError, match="two"):
        next(results)


def test_what_the_source_raises_comes_after_what_it_gave() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise LookupError("gone")

    results = in_order(items(), lambda item: item, in_flight=2)
    assert next(results) == 1
    with pytest.raises(LookupError, match="gone"):
        next(results)
