"""The cases about pictures that are to be refused: I10, I11, I15 and I16.

It does not know how a server reads pictures, only that it must say what is wrong, at once, and go on.
"""

from tests.acceptance.case_server import Outcome, together
from tests.acceptance.picture_server import Captioner, most_memory, quickest, with_captioner

REFUSED = "INVALID_ARGUMENT in words"
QUICK_SECONDS = 0.1
FLAT_MEBIBYTES = 100
FORMATS = ("JPEG", "PNG", "WebP", "GIF", "BMP", "TIFF")


@with_captioner("I10", "files that are not whole")
def not_whole(server: Captioner) -> list[Outcome]:
    """Files that are cut, or have wrong checksums."""
    outcomes: list[Outcome] = []
    for name in ("I10_truncated_half.jpg", "I10_truncated_half.png", "I10_header_only.jpg", "I10_corrupt_crc.png"):
        seen = server.read(name)
        outcomes.append(Outcome("I10", name, REFUSED, seen.short, seen.refused))
    name = "I10_truncated_2_bytes.jpg"
    codes = [server.read(name) for _ in range(3)]
    ok = len({seen.code for seen in codes}) == 1 and (codes[0].refused or codes[0].sound)
    return [
        *outcomes,
        Outcome("I10", f"{name}, 3 times", "the same each time: OK, or INVALID_ARGUMENT in words", codes[0].short, ok),
    ]


@with_captioner("I11", "decompression bombs")
def bombs(server: Captioner) -> list[Outcome]:
    """Small files of very many pixels, alone and many at once."""
    outcomes: list[Outcome] = []
    names = ("I11_bomb_13300x13300_1bit.png", "I11_bomb_20000x20000_1bit.png")
    for name in names:
        seen = quickest(server, name)
        ok = seen.refused and seen.seconds < QUICK_SECONDS
        expected = f"{REFUSED}, within {1000 * QUICK_SECONDS:.0f} ms"
        outcomes.append(Outcome("I11", name, expected, f"{seen.short} ({1000 * seen.seconds:.0f} ms)", ok))
    before = most_memory(server.server)
    crowd = together(server.read, names * 16, at_once=32)
    after = most_memory(server.server)
    refused = sum(seen.refused for seen in crowd)
    tried = f"{len(crowd)} of them at once"
    outcomes.append(Outcome("I11", tried, REFUSED, f"{refused} refused", refused == len(crowd)))
    if before is not None and after is not None:
        got, ok = f"{after - before:.0f} MiB", after - before < FLAT_MEBIBYTES
        outcomes.append(Outcome("I11", f"{tried}: memory of the server", f"at most {FLAT_MEBIBYTES} MiB more", got, ok))
    return outcomes


@with_captioner("I15", "no pictures")
def no_pictures(server: Captioner) -> list[Outcome]:
    """What is no picture, whatever its name says, and a picture under a wrong name."""
    png = server.read("I15_png_named.jpg")
    like = png.like(server.read("REF.png"))
    outcomes = [Outcome("I15", "I15_png_named.jpg", "OK, caption and maps as of REF.png", png.short, like)]
    for name in (
        "I15_zero_bytes.jpg",
        "I15_text_named.jpg",
        "I15_html_error_page.png",
        "I15_data_uri.txt",
        "I15_jpeg_magic_then_garbage.jpg",
    ):
        seen = server.read(name)
        outcomes.append(Outcome("I15", name, REFUSED, seen.short, seen.refused))
    return outcomes


@with_captioner("I16", "other formats")
def other_formats(server: Captioner) -> list[Outcome]:
    """Formats that phones and browsers make and that nothing here reads."""
    outcomes: list[Outcome] = []
    for name in ("I16_sample.svg", "I16_entity.svg", "I16_header_only.heic", "I16_sample.avif"):
        seen = server.read(name)
        ok = seen.refused and all(kind in seen.details for kind in FORMATS)
        outcomes.append(Outcome("I16", name, "INVALID_ARGUMENT naming what is read", seen.short, ok))
    log = server.server.log
    if log is not None:
        leaked = b"<!ENTITY" in log.read_bytes()
        got = "leaked" if leaked else "none"
        outcomes.append(Outcome("I16", "the server's log", "nothing of the files", got, not leaked))
    return outcomes
