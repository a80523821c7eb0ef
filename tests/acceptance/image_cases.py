"""The cases about pictures that are to be captioned, I01 to I08, I13 and I14, and about captions, D02 and D17.

It does not know how a server reads pictures, only what an answer must be like.
"""

from tests.acceptance.case_server import Outcome
from tests.acceptance.picture_server import Captioner, Seen, quickest, with_captioner

REFERENCES = ("REF.png", "REF.jpg")
LIKE_REFERENCE = "OK, caption and maps as of REF.png or REF.jpg"
NEAR_REFERENCE = "OK, nearly as of REF.png or REF.jpg"
READ_OR_REFUSED = "OK, or INVALID_ARGUMENT in words"
QUICK_SECONDS = 0.1
TURNED = (*(f"I08_exif_orientation_{number}.jpg" for number in (3, 5, 6, 8)), "I08_exif_orientation_6.png")


@with_captioner("I01", "ink colours")
def ink_colours(server: Captioner) -> list[Outcome]:
    """JPEG files of four channels, with and without the marker that says that they are inverted."""
    marked, plain = server.read("I01_cmyk_adobe.jpg"), server.read("I01_cmyk_no_app14.jpg")
    near = any(marked.near(server.read(reference)) for reference in REFERENCES)
    return [
        Outcome("I01", "I01_cmyk_adobe.jpg", NEAR_REFERENCE, marked.short, near),
        Outcome("I01", "I01_cmyk_no_app14.jpg", "OK, read as inverted like the other", plain.short, plain.like(marked)),
    ]


@with_captioner("I02", "16 bits a channel")
def deep_colours(server: Captioner) -> list[Outcome]:
    """Sixteen bits, which naive conversion turns white."""
    grey = server.read("I03_gray_L.jpg")
    outcomes = [_alike(server, "I02", "I02_rgb16.png")]
    for name in ("I02_gray16.png", "I02_gray16_be.tif"):
        seen = server.read(name)
        outcomes.append(Outcome("I02", name, "OK, nearly as of I03_gray_L.jpg", seen.short, seen.near(grey)))
    ramp = server.read("I02_gray16_ramp.png")
    return [*outcomes, Outcome("I02", "I02_gray16_ramp.png", "OK", ramp.short, ramp.sound)]


@with_captioner("I03", "kinds of colours")
def kinds_of_colours(server: Captioner) -> list[Outcome]:
    """Grey, two levels, palettes, LAB, real numbers, and files that are the scene in other formats."""
    same = ("I03_bmp.bmp", "I03_lossy.webp", "I03_palette_P.png", "I03_progressive.jpg", "I03_rgb.tif")
    outcomes = [_alike(server, "I03", name) for name in same]
    for name in ("I03_bilevel_1.png", "I03_gray_L.jpg", "I03_gray_alpha_LA.png"):
        seen = server.read(name)
        outcomes.append(Outcome("I03", name, "OK", seen.short, seen.sound))
    for name in ("I03_float32_F.tif", "I03_lab.tif"):
        seen = server.read(name)
        outcomes.append(Outcome("I03", name, READ_OR_REFUSED, seen.short, seen.sound or seen.refused))
    return outcomes


@with_captioner("I04", "what is invisible")
def transparency(server: Captioner) -> list[Outcome]:
    """Pictures that look the same, with other colours where nobody sees them."""
    black, noise = server.read("I04_rgba_hidden_black.png"), server.read("I04_rgba_hidden_noise.png")
    exact = black.code == "OK" and black.text == noise.text and bool((black.maps == noise.maps).all())
    webp = server.read("I04_rgba.webp")
    return [
        Outcome(
            "I04", "hidden black and hidden noise", "equal to the last bit", f"{black.short} / {noise.short}", exact
        ),
        Outcome("I04", "I04_rgba.webp", "OK, as of the PNG files", webp.short, webp.like(black)),
    ]


@with_captioner("I06", "animations")
def animations(server: Captioner) -> list[Outcome]:
    """Many frames, and a palette with a transparent colour."""
    outcomes: list[Outcome] = []
    for name in ("I06_animated.gif", "I06_palette_transparency.gif"):
        once, again = server.read(name), server.read(name)
        outcomes.append(Outcome("I06", f"{name}, twice", "OK, the same", once.short, once.sound and once.like(again)))
    one, many = quickest(server, "I06_animated.gif"), quickest(server, "I06_animated_500_frames.gif")
    bound = max(2 * one.seconds, QUICK_SECONDS)
    expected = f"OK, in the time of one frame ({bound:.2f} s)"
    ok = many.sound and many.seconds <= bound
    return [*outcomes, Outcome("I06", "I06_animated_500_frames.gif", expected, many.short, ok)]


@with_captioner("I08", "orientations")
def orientations(server: Captioner) -> list[Outcome]:
    """Photographs that lie on their side and say so."""
    outcomes: list[Outcome] = []
    upright = server.read(REFERENCES[0]).image
    for name in TURNED:
        seen = server.read(name)
        outcomes.append(_alike(server, "I08", name, seen))
        image = seen.image
        got = f"{image.width} x {image.height}, orientation {image.orientation}"
        ok = (image.width, image.height) == (upright.width, upright.height) and f"_{image.orientation}." in name
        outcomes.append(Outcome("I08", name, f"upright, {upright.width} x {upright.height}", got, ok))
    return outcomes


@with_captioner("I13", "one pixel")
def one_pixel(server: Captioner) -> list[Outcome]:
    """Next to nothing."""
    return _any_size(server, "I13", "I13_1x1.png", "I13_1x1.gif", "I13_2x2.jpg")


@with_captioner("I14", "proportions")
def proportions(server: Captioner) -> list[Outcome]:
    """Very long and very thin."""
    return _any_size(server, "I14", "I14_10000x10.png", "I14_10x10000.jpg", "I14_4000x1.png")


@with_captioner("D02", "captions that do not end")
def endless(server: Captioner) -> list[Outcome]:
    """Noise, which some decoders never stop describing, and captions that are not let end."""
    noise = server.server.bytes("I04_rgba_hidden_noise.png")
    outcomes: list[Outcome] = []
    for beam in (1, 3, 5):
        seen = server.see(noise, beam_size=beam, max_length=2)
        ok = seen.sound and len(seen.maps) <= 2
        outcomes.append(Outcome("D02", f"at most 2 tokens, beam {beam}", "OK, a caption with its maps", seen.short, ok))
    return outcomes


@with_captioner("D17", "maps of turned pictures")
def maps_of_turned_pictures(server: Captioner) -> list[Outcome]:
    """Maps of the same scene, turned: they must be those of the upright picture."""
    if server.attention is None:
        return [Outcome("D17", "maps", "in the upright picture", "this model has no attention", None)]
    outcomes: list[Outcome] = []
    for name in TURNED:
        seen = server.read(name)
        cells = (seen.image.rows, seen.image.columns)
        ok = seen.maps.shape[1:] == cells and any(seen.like(server.read(reference)) for reference in REFERENCES)
        outcomes.append(Outcome("D17", f"maps of {name}", "those of the upright picture", seen.short, ok))
    return outcomes


def _alike(server: Captioner, case: str, name: str, seen: Seen | None = None) -> Outcome:
    """What comes of a file of the reference's scene; lossy files are like the lossy reference."""
    found = server.read(name) if seen is None else seen
    ok = any(found.like(server.read(reference)) for reference in REFERENCES)
    return Outcome(case, name, LIKE_REFERENCE, found.short, ok)


def _any_size(server: Captioner, case: str, *names: str) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for name in names:
        seen = server.read(name)
        outcomes.append(Outcome(case, name, READ_OR_REFUSED, seen.short, seen.sound or seen.refused))
    return outcomes
