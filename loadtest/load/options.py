"""The options of a load where Locust itself is called, and the plan that they make.

It does not know Locust: its parser is handed in.
"""

from pathlib import Path
from typing import Any

from regard.loadtest.load.plan import Plan, plan_from_json
from regard.loadtest.load.traffic import HELP, parse_classes


def add_options(parser: Any) -> None:
    """Declare the options of a plan; the web page shows them too."""
    parser.add_argument("--loop", default="open", help="open: send when due; closed: each user keeps a call in flight")
    parser.add_argument("--arrivals", default="poisson", help="of an open loop: poisson or constant")
    parser.add_argument("--rate", type=float, default=20.0, help="of an open loop: requests per second")
    parser.add_argument("--duration", type=float, default=30.0, help="seconds that are measured")
    parser.add_argument("--warmup", type=float, default=2.0, help="seconds before them that no figure contains")
    parser.add_argument("--seed", type=int, default=1, help="of arrival times and payloads")
    parser.add_argument("--classes", default="any", help=HELP)
    parser.add_argument("--deadline", type=float, default=10.0, help="seconds that a call may take")
    parser.add_argument("--connections", type=int, default=2, help="of every process")
    parser.add_argument("--sentences", default="", help="file with one text a line; empty for the built-in ones")
    parser.add_argument("--pictures", default="", help="folder of picture files; empty for drawn ones")
    parser.add_argument("--output", default="", help="folder for the results; empty for a new one under reports/")
    parser.add_argument("--plan", default="", include_in_web_ui=False, help="JSON file that says all of the above")
    parser.add_argument("--status", action="store_true", include_in_web_ui=False, help="write progress as JSON lines")
    parser.add_argument("--no-report", action="store_true", include_in_web_ui=False, help="leave the records in parts")


def plan_of(options: Any, *, address: str, users: int, workers: int) -> Plan:
    """The plan of a file, if one is named, or of the options. Raises ValueError or OSError."""
    if options.plan:
        return plan_from_json(Path(options.plan).read_text(encoding="utf-8"))
    return Plan(
        address=address,
        loop=options.loop,
        arrivals=options.arrivals,
        rate=options.rate,
        users=users,
        warmup=options.warmup,
        duration=options.duration,
        deadline=options.deadline,
        seed=options.seed,
        workers=workers,
        connections=options.connections,
        classes=parse_classes(options.classes),
        sentences=options.sentences,
        pictures=options.pictures,
    )
