"""Names the kinds of request that a load is made of, and reads which of them are wanted and how often.

It does not know texts or pictures.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

# Words, both ends included.
LENGTHS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"short": (1, 6), "medium": (7, 16), "long": (17, 10_000), "any": (1, 10_000)}
)
# Millions of pixels, above the first and up to the second; `any` is whatever is there, of what is drawn all but photos.
SIZES: Mapping[str, tuple[float, float]] = MappingProxyType(
    {"small": (0.0, 0.1), "medium": (0.1, 1.0), "large": (1.0, 6.0), "photo": (6.0, 10_000.0), "any": (0.0, 10_000.0)}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficClass:
    """One kind of request, with figures of its own in the report: translations, or captions if it has pictures.

    Attributes:
        name: in the report.
        weight: its share among the other classes.
        length: which sentences: short, medium, long or any.
        texts: how many of them in a call.
        pictures: how many of them in a call, instead of texts.
        size: which pictures: small, medium, large, photo or any.
        beam_size: 0 leaves the choice to the server.
        attention: whether attention is asked for: matrices between subwords, or a map for every word of a caption.
        model: empty leaves the choice to the server.
    """

    name: str
    weight: float = 1.0
    length: str = "any"
    texts: int = 1
    pictures: int = 0
    size: str = "any"
    beam_size: int = 0
    attention: bool = False
    model: str = ""

    def __post_init__(self) -> None:
        if self.length not in LENGTHS:
            raise ValueError(f"class {self.name}: length must be one of {', '.join(LENGTHS)}, not {self.length!r}")
        if self.size not in SIZES:
            raise ValueError(f"class {self.name}: size must be one of {', '.join(SIZES)}, not {self.size!r}")
        if not self.weight > 0:
            raise ValueError(f"class {self.name}: weight must be above 0, not {self.weight}")
        if self.texts < 1:
            raise ValueError(f"class {self.name}: needs at least one text in a call, not {self.texts}")
        if self.pictures < 0:
            raise ValueError(f"class {self.name}: cannot have {self.pictures} pictures in a call")

    @property
    def task(self) -> str:
        """What its requests ask for, in a word."""
        return "captions" if self.pictures else "translations"


BUILT_IN_CLASSES: Mapping[str, TrafficClass] = MappingProxyType(
    {
        "any": TrafficClass(name="any"),
        "short": TrafficClass(name="short", length="short"),
        "medium": TrafficClass(name="medium", length="medium"),
        "long": TrafficClass(name="long", length="long"),
        "batch": TrafficClass(name="batch", texts=8),
        "beam": TrafficClass(name="beam", beam_size=5),
        "attention": TrafficClass(name="attention", attention=True),
        "caption": TrafficClass(name="caption", pictures=1),
        "caption-small": TrafficClass(name="caption-small", pictures=1, size="small"),
        "caption-photo": TrafficClass(name="caption-photo", pictures=1, size="photo"),
        "caption-batch": TrafficClass(name="caption-batch", pictures=8),
        "caption-beam": TrafficClass(name="caption-beam", pictures=1, beam_size=5),
        "caption-maps": TrafficClass(name="caption-maps", pictures=1, attention=True),
    }
)
TRANSLATIONS, CAPTIONS = (
    ", ".join(name for name, traffic in BUILT_IN_CLASSES.items() if bool(traffic.pictures) is pictures)
    for pictures in (False, True)
)
HELP = (
    f"kinds of request with weights, as short=3,caption=1: translations ({TRANSLATIONS}) and captions ({CAPTIONS}), "
    "in any mixture; each has figures of its own"
)


def parse_classes(text: str) -> tuple[TrafficClass, ...]:
    """Read `short=3,beam=1`: built-in classes with their weights. Raises ValueError."""
    classes: list[TrafficClass] = []
    for part in text.split(","):
        name, _, weight = part.strip().partition("=")
        if name not in BUILT_IN_CLASSES:
            raise ValueError(f"no traffic class {name!r}; there are {', '.join(BUILT_IN_CLASSES)}")
        classes.append(replace(BUILT_IN_CLASSES[name], weight=float(weight or 1)))
    if len({c.name for c in classes}) != len(classes):
        raise ValueError(f"a traffic class is named twice in {text!r}")
    return tuple(classes)
