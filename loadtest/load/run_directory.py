"""Names the files of a run, and puts the parts that the workers wrote together.

It does not know what is in them beyond records and health.
"""

from pathlib import Path

from regard.loadtest.load.gauges import read_health, write_health
from regard.loadtest.load.recorder import read_records, write_records

PLAN = "plan.json"
RECORDS = "requests.csv.gz"
GENERATOR = "generator.json"
SUMMARY = "summary.json"
VERDICT = "verdict.json"
ENVIRONMENT = "env.json"
FLOOR = "floor.json"
REPORT = "report.html"
LOG = "locust.log"


def part_of(directory: Path, name: str, worker: int) -> Path:
    """Where a worker writes its part of a file."""
    return directory / f"{worker}.{name}"


def gather(directory: Path, *, workers: int) -> None:
    """Put all parts into one file each, records by the time they were due, and remove them.

    Raises FileNotFoundError if a worker wrote none: its requests would be missing from every figure.
    """
    records = [part_of(directory, RECORDS, worker) for worker in range(workers)]
    healths = [part_of(directory, GENERATOR, worker) for worker in range(workers)]
    if missing := [path.name for path in (*records, *healths) if not path.is_file()]:
        raise FileNotFoundError(f"the load was not recorded: {', '.join(missing)} missing in {directory}")
    rows = sorted((record for path in records for record in read_records(path)), key=lambda record: record.due_ns)
    write_records(directory / RECORDS, rows)
    write_health(directory / GENERATOR, [health for path in healths for health in read_health(path)])
    for path in (*records, *healths):
        path.unlink()
