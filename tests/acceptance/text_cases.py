"""The cases about texts, T01 to T19: what people send, and what became of it elsewhere.

It does not know how a server reads text, only what an answer must be like.
"""

from collections.abc import Callable

from tests.acceptance.case_server import CaseServer, Outcome, Reply, span_is_whole

from regard.client import Client

QUICK_SECONDS = 2.0
BOUNDED = "OK and within the length bound, or INVALID_ARGUMENT"


def empty_text(server: CaseServer) -> list[Outcome]:
    """Nothing to translate."""
    alone = server.translate(server.read("T01_empty.txt"))
    hello = server.translate("Hello.")
    both = server.translate("", "Hello.")
    none = server.translate()
    blank = server.translate(" \t\n\u00a0")
    apart = both.code == "OK" and [result.text for result in both.results] == ["", hello.text]
    return [
        Outcome("T01", "empty text", "OK, empty, no segments", alone.short, _is_empty(alone)),
        Outcome("T01", 'batch ["", "Hello."]', "empty one empty, other as alone", both.short, apart),
        Outcome("T01", "batch []", "OK, nothing", none.short, none.code == "OK" and not none.results),
        Outcome("T01", "white space only", "OK, no segments", blank.short, blank.code == "OK" and not blank.segments),
    ]


def repetition(server: CaseServer) -> list[Outcome]:
    """One word or sign again and again."""
    outcomes: list[Outcome] = []
    for name in ("T03_question_marks.txt", "T03_repeat_char.txt", "T03_repeat_word.txt"):
        for beam in (1, 5):
            reply = server.translate(server.read(name), beam_size=beam)
            outcomes.append(Outcome("T03", f"{name}, beam {beam}", BOUNDED, _length(reply), server.bounded(reply)))
    return outcomes


def too_long(server: CaseServer) -> list[Outcome]:
    """Longer than the model can take."""
    outcomes: list[Outcome] = []
    for name in ("T04_one_sentence_900_words.txt", "T04_unbroken_5000_chars.txt", "T04_text_1MiB.txt"):
        text = server.read(name)
        reply = server.translate(text)
        whole = bool(reply.segments) and reply.segments[-1].source_span.end >= len(text.rstrip().encode())
        ok = _names_limit(reply) if reply.code != "OK" else whole
        expected = "INVALID_ARGUMENT with limit and actual, or all of it in segments"
        outcomes.append(Outcome("T04", name, expected, reply.short, ok))
        if name == "T04_text_1MiB.txt":
            got = f"{reply.seconds:.2f} s"
            outcomes.append(Outcome("T04", name, f"within {QUICK_SECONDS:.0f} s", got, reply.seconds < QUICK_SECONDS))
    return [*outcomes, *_boundary(server)]


def emoji(server: CaseServer) -> list[Outcome]:
    """A sign that ends everything."""
    text = server.read("T05_emoji_mid.txt")
    with_emoji, control = server.translate(text), server.translate(server.read("T05_no_emoji_control.txt"))
    got = f"{len(with_emoji.segments)} segments, last {_last(with_emoji)!r}; control {_last(control)!r}"
    whole = bool(with_emoji.segments) and with_emoji.segments[-1].source_span.end >= len(text.rstrip().encode())
    ok = whole and with_emoji.code == "OK" and bool(_last(with_emoji)) == bool(_last(control))
    return [Outcome("T05", "emoji between sentences", "the sentence behind it is translated", got, ok)]


def normal_forms(server: CaseServer) -> list[Outcome]:
    """The same text, composed and decomposed."""
    composed, apart = server.translate(server.read("T08_nfc.txt")), server.translate(server.read("T08_nfd.txt"))
    same = composed.code == apart.code == "OK" and composed.text == apart.text
    outcomes = [Outcome("T08", "NFC and NFD", "same translation", f"{composed.text!r} / {apart.text!r}"[:120], same)]
    for name in ("T08_nfc.txt", "T08_nfd.txt", "T08_hangul_nfd.txt"):
        text = server.read(name)
        reply = server.translate(text)
        got = f"{sum(len(s.source_tokens) for s in reply.segments)} tokens, last ends at {_last_end(reply)}"
        ok = reply.code == "OK" and _spans_fit(text, reply) and _last_end(reply) == len(text.rstrip().encode())
        outcomes.append(Outcome("T08", name, f"spans cut no character, last ends at {len(text.encode())}", got, ok))
    return outcomes


def control_characters(server: CaseServer) -> list[Outcome]:
    """NUL, escape sequences and their like."""
    text = server.read("T10_nul_middle.txt")
    reply = server.translate(text)
    whole = reply.code == "OK" and _last_end(reply) >= len(text.rstrip().encode()) - 1
    outcomes = [
        Outcome("T10", "NUL in the middle", "both halves or INVALID_ARGUMENT", reply.short, whole or _refused(reply))
    ]
    controls = server.translate(server.read("T10_controls.txt"))
    outcomes.append(Outcome("T10", "T10_controls.txt", BOUNDED, controls.short, server.bounded(controls)))
    if server.log is not None:
        raw = {byte for byte in server.log.read_bytes() if byte < 0x20 and byte not in b"\t\n\r"}
        got = "none" if not raw else f"bytes {sorted(raw)}"
        outcomes.append(Outcome("T10", "the server's log", "no raw control bytes", got, not raw))
    return outcomes


def broken_unicode(server: CaseServer) -> list[Outcome]:
    """Bytes that are no text."""
    outcomes: list[Outcome] = []
    for name in ("T11_invalid_utf8.bin", "T11_lone_surrogate_wtf8.bin", "T11_truncated_utf8.bin"):
        reply = server.send_bytes(b"\x1a" + bytes([len(server.bytes(name))]) + server.bytes(name))
        outcomes.append(Outcome("T11", f"{name} on the wire", "INVALID_ARGUMENT", reply.short, _refused(reply)))
    with_mark, without = server.translate(server.read("T11_bom.txt")), server.translate("The cat sleeps.")
    same = with_mark.code == "OK" and with_mark.text == without.text
    outcomes.append(Outcome("T11", "T11_bom.txt", f"as without BOM, {without.text[:40]!r}", with_mark.short, same))
    try:
        with Client(server.address) as client:
            client.translate(["\ud800"])
        got, ok = "it was sent", False
    except ValueError as error:
        got, ok = f"ValueError: {error}", True
    return [*outcomes, Outcome("T11", "lone surrogate in the client", "ValueError that says where", got[:110], ok)]


def only_bounded(case: str, *names: str) -> Callable[[CaseServer], list[Outcome]]:
    """Where only a better model could do right: documented as plain text, bounded, and the server goes on."""

    def try_files(server: CaseServer) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for name in names:
            reply = server.translate(server.read(name))
            got = f"{_length(reply)}: {reply.text[:60]!r}"
            outcomes.append(
                Outcome(case, name, "plain text: bounded, said to be cut if it is", got, server.bounded(reply))
            )
        return outcomes

    try_files.__doc__ = "What only a better model could do right."
    return try_files


def sentences(server: CaseServer) -> list[Outcome]:
    """Several sentences in one text."""
    two = server.translate(server.read("T17_two_sentences.txt"))
    text = server.read("T17_paragraph_40_sentences.txt")
    forty = server.translate(text)
    abbreviations = server.translate(server.read("T17_abbreviations.txt"))
    encoded = text.encode()
    found = [encoded[s.source_span.start : s.source_span.end].decode() for s in forty.segments]
    wanted = [f"Sentence number {i} says that box {i} is full." for i in range(1, 41)]
    all_there = [sentence.strip() for sentence in found] == wanted and all(_texts(forty))
    inside = all(
        segment.source_span.start <= link.source_span.start <= link.source_span.end <= segment.source_span.end
        for segment in forty.segments
        for hypothesis in segment.hypotheses
        for link in hypothesis.alignments
    )
    return [
        Outcome(
            "T17", "two sentences", "2 segments", f"{len(two.segments)}: {_texts(two)}"[:110], len(two.segments) == 2
        ),
        Outcome("T17", "40 sentences", "40 segments, 1 to 40 in order", f"{len(found)} segments", all_there),
        Outcome("T17", "40 sentences", "alignments within their sentence", f"{inside}", inside and bool(found)),
        Outcome(
            "T17",
            "abbreviations and decimals",
            "2 segments",
            f"{len(abbreviations.segments)} segments",
            len(abbreviations.segments) == 2,
        ),
    ]


def _boundary(server: CaseServer) -> list[Outcome]:
    most = server.max_source_tokens
    word = _one_token_word(server)
    if word is None:
        return [Outcome("T04", "lengths around the limit", f"{most} tokens", "no word is one token here", None)]
    outcomes: list[Outcome] = []
    for tokens in (most - 1, most, most + 1):
        # One of the tokens is the end of sentence.
        reply = server.translate(" ".join([word] * (tokens - 1)), max_length=1)
        if tokens <= most:
            read = len(reply.segments[0].source_tokens) if reply.segments else 0
            expected, ok = f"OK, {tokens} tokens read", reply.code == "OK" and read == tokens
            got = f"{reply.code}, {read} tokens read"
        else:
            # Either number may count the end of sentence or not, as long as the message says so.
            ok = _names(reply, most, tokens) or _names(reply, most - 1, tokens - 1)
            expected, got = "INVALID_ARGUMENT naming limit and actual", reply.short
        outcomes.append(Outcome("T04", f"{tokens} tokens, limit {most}", expected, got, ok))
    return outcomes


def _one_token_word(server: CaseServer) -> str | None:
    for word in ("the", "a", "I", "to", "is", "e", "o"):
        reply = server.translate(" ".join([word] * 10), max_length=1)
        if len(reply.segments) == 1 and len(reply.segments[0].source_tokens) == 11:
            return word
    return None


def _is_empty(reply: Reply) -> bool:
    return reply.code == "OK" and [result.text for result in reply.results] == [""] and not reply.segments


def _refused(reply: Reply) -> bool:
    return reply.code == "INVALID_ARGUMENT" and bool(reply.details)


def _names(reply: Reply, *numbers: int) -> bool:
    return _refused(reply) and all(str(number) in reply.details.replace(",", "") for number in numbers)


def _names_limit(reply: Reply) -> bool:
    return _refused(reply) and sum(part.strip(".,;:()").isdecimal() for part in reply.details.split()) >= 2


def _texts(reply: Reply) -> list[str]:
    return [segment.hypotheses[0].text for segment in reply.segments if segment.hypotheses]


def _last(reply: Reply) -> str:
    return _texts(reply)[-1] if _texts(reply) else ""


def _last_end(reply: Reply) -> int:
    ends = [token.span.end for segment in reply.segments for token in segment.source_tokens if token.span.end]
    return max(ends, default=0)


def _spans_fit(text: str, reply: Reply) -> bool:
    spans = [token.span for segment in reply.segments for token in segment.source_tokens]
    return all(span_is_whole(text, span.start, span.end) for span in spans)


def _length(reply: Reply) -> str:
    if reply.code != "OK":
        return reply.short
    tokens = [len(segment.hypotheses[0].tokens) for segment in reply.segments]
    read = [len(segment.source_tokens) for segment in reply.segments]
    return f"OK in {reply.seconds:.1f} s, {sum(tokens)} tokens for {sum(read)}"
