"""The texts of the cases: kept here where they are short, repeated or drawn from a seed where they are long.

Written with escapes, so that no editor, checkout or normalisation changes a byte of them.
"""

import base64
import random
import unicodedata

_MEBIBYTE = 2**20
_FRENCH = "Le garçon a mangé à côté du château où l'été était déjà brûlant."
_KOREAN = "한국어 문장을 번역해요"


def text_inputs() -> dict[str, bytes]:
    """All texts by name; most are UTF-8, those named `.bin` are not."""
    written = {
        "T01_empty.txt": "",
        "T03_question_marks.txt": "???????? " * 40,
        "T03_repeat_char.txt": "a" * 2000,
        "T03_repeat_word.txt": "na " * 200,
        "T04_one_sentence_900_words.txt": _one_sentence(900),
        "T04_text_1MiB.txt": _two_sentences_over_and_over(_MEBIBYTE),
        "T04_unbroken_5000_chars.txt": _unbroken(5000),
        "T05_emoji_mid.txt": "We packed the tent this morning. \U0001f606 Then we drove to the lake and swam.",
        "T05_no_emoji_control.txt": "We packed the tent this morning. Then we drove to the lake and swam.",
        "T08_nfc.txt": unicodedata.normalize("NFC", _FRENCH),
        "T08_nfd.txt": unicodedata.normalize("NFD", _FRENCH),
        "T08_hangul_nfd.txt": unicodedata.normalize("NFD", _KOREAN),
        "T10_controls.txt": ("Bell\x07 escape\x1b[31m red\x1b[0m backspace\x08 delete\x7f c1\x85\x9b end of line."),
        "T10_nul_middle.txt": "The first half.\x00 The second half.",
        "T11_bom.txt": "\ufeffThe cat sleeps.",
        "T13_angle_math.txt": "If a < b and b > c, then a may be smaller than c.",
        "T13_html_inline.txt": "<p>I <b>like</b> to <i>swim</i> in this lake.</p>",
        "T13_html_nested.txt": (
            '<a href="#top" target="_blank"><em><span style="color:#f00">See the full range of</span></em> '
            "<em><span>our boats here!</span></em></a>"
        ),
        "T13_xml_unbalanced.txt": "<note><to>Anna</to><body>Do not forget the keys</note",
        "T14_placeholders.txt": (
            "Hello %1$s, you have {0} new messages.\n"
            "Dear {{customer.name}}, order #%d costs ${PRICE}.\n"
            "Press <0>here</0> or %(link)s to pay :amount by {date, date, short}.\n"
        ),
        "T15_numbers_in_text.txt": (
            "The fund grew by USD 1.153 billion to USD 585.895 billion on 13 October, room $231$, flight LH-1402."
        ),
        "T15_numbers_only.txt": "102\n6171-1231-1311-1231\n1 2 3 4 5 6 7 8 9 10\n3.14159\n",
        "T15_urls.txt": (
            "Visit https://example.org/a_b/c-d?q=x%20y&lang=de#Top or write to help@example.org before noon.\n"
            "\u89c1 https://example.org/\u8def\u5f84?id=42 \u4e86\u89e3\u66f4\u591a\u3002\n"
        ),
        "T16_lower.txt": "what else is happening? the soup is on the table.",
        "T16_title.txt": "What Else Is Happening? The Soup Is On The Table. Mother mother.",
        "T16_upper.txt": "WHAT ELSE IS HAPPENING? THE SOUP IS ON THE TABLE.",
        "T17_abbreviations.txt": ("Dr. Smith arrived at 5 p.m. with Mr. Jones, i.e. the owner. They paid 3.50 each."),
        "T17_paragraph_40_sentences.txt": " ".join(
            f"Sentence number {number} says that box {number} is full." for number in range(1, 41)
        ),
        "T17_two_sentences.txt": "Walk on, walk on! The rain will stop before the evening comes.",
        "T19_mixed_script.txt": (
            "\u6211\u4eec use PyTorch \u8bad\u7ec3\u6a21\u578b\uff0c\u7136\u540e export \u6210 ONNX"
            "\uff08\u7248\u672c\uff11\uff18\uff09\u3002\u65e5\u672c\u8a9e\u3082\u30c6\u30b9\u30c8"
            "\u3057\u307e\u3059\u3002"
        ),
        "T19_short_fragment_zh.txt": "\u6162\u6162\u8d70\u8fc7\u6765",
    }
    return {name: text.encode() for name, text in written.items()} | {
        "T11_invalid_utf8.bin": b"caf\xe9 \xc3( \xff\xfe end",
        "T11_lone_surrogate_wtf8.bin": b"ok \xed\xa0\x80 bad",
        "T11_truncated_utf8.bin": b"hello \xf0\x9f\x98",
    }


def _one_sentence(words: int) -> str:
    """A sentence of about so many words, without a place to divide it."""
    nouns = ["window", "harbour", "village", "bridge", "camera", "river", "ticket", "market", "teacher", "letter"]
    places = ["behind", "near", "without", "against", "beside", "around"]
    draw = random.Random(0)
    clauses = [
        f"the {draw.choice(nouns)} is {draw.choice(places)} the {draw.choice(nouns)}" for _ in range((words - 3) // 7)
    ]
    return f"The report says that {' and '.join(clauses)}."


def _two_sentences_over_and_over(size: int) -> str:
    text = (
        "The old lighthouse keeper walked down to the harbour every morning. "
        "He counted the boats and wrote the number in a small book. "
    )
    return (text * (size // len(text) + 1))[:size]


def _unbroken(characters: int) -> str:
    """One word of letters and digits: few words, thousands of subword tokens."""
    return base64.b64encode(random.Random(0).randbytes(characters)).decode()[:characters]
