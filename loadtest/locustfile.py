"""The load, made by Locust: its options, users, and the start and end of a test, alone or over several processes.

It does not know what the figures mean. Run it bare, web page included, with
`locust -f loadtest/locustfile.py --host 127.0.0.1:50051`; each test leaves a folder under reports/ with its report.

gRPC under gevent hands every blocking wait to a native thread pool of ten threads, one of which it holds itself: with
more calls in flight a fast answer is noticed only when a slow one frees a thread. So the pool is enlarged before gRPC
first uses it, calls never block (`.future()`), and channels are few and made after Locust forks its workers.
"""

# pyright: reportUnknownMemberType=false, reportUnknownLambdaType=false, reportUnknownVariableType=false
# Locust does not say what its hooks take.

import logging
import time
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import Any, ClassVar

import gevent
import grpc.experimental.gevent as grpc_gevent
import psutil
from locust import User, constant, events, task
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment
from locust.exception import StopUser
from locust.runners import MasterRunner, WorkerRunner

from loadtest.connection import Connection, UnreachableError
from loadtest.corpus import BUILT_IN_CLASSES, parse_classes
from loadtest.gauges import Gauges, write_health
from loadtest.load import Load, Seen, window_of
from loadtest.plan import Plan, plan_from_json
from loadtest.recorder import OK, write_records
from loadtest.run_directory import GENERATOR, PLAN, RECORDS, part_of
from loadtest.watch import watched

THREAD_POOL = 256
# Seconds between the word to go and the first moment at which a request may be due: time to draw the schedule.
HEAD_START = 0.5

log = logging.getLogger(__name__)

gevent.get_hub().threadpool.maxsize = THREAD_POOL
grpc_gevent.init_gevent()


@events.init_command_line_parser.add_listener
def add_options(parser: LocustArgumentParser) -> None:
    """Declare the options of a plan; the web page shows them too."""
    classes = f"kinds of request with weights, as short=3,beam=1: {', '.join(BUILT_IN_CLASSES)}"
    parser.add_argument("--loop", default="open", help="open: send when due; closed: each user keeps a call in flight")
    parser.add_argument("--arrivals", default="poisson", help="of an open loop: poisson or constant")
    parser.add_argument("--rate", type=float, default=20.0, help="of an open loop: requests per second")
    parser.add_argument("--duration", type=float, default=30.0, help="seconds that are measured")
    parser.add_argument("--warmup", type=float, default=2.0, help="seconds before them that no figure contains")
    parser.add_argument("--seed", type=int, default=1, help="of arrival times and payloads")
    parser.add_argument("--classes", default="any", help=classes)
    parser.add_argument("--deadline", type=float, default=10.0, help="seconds that a call may take")
    parser.add_argument("--connections", type=int, default=2, help="of every process")
    parser.add_argument("--sentences", default="", help="file with one text a line; empty for the built-in ones")
    parser.add_argument("--output", default="", help="folder for the results; empty for a new one under reports/")
    parser.add_argument("--plan", default="", include_in_web_ui=False, help="JSON file that says all of the above")
    parser.add_argument("--status", action="store_true", include_in_web_ui=False, help="write progress as JSON lines")
    parser.add_argument("--no-report", action="store_true", include_in_web_ui=False, help="leave the records in parts")


@events.init.add_listener
def direct(environment: Environment, **_: Any) -> None:
    """Attach a director to this process."""
    options: Any = environment.parsed_options
    if options.run_time and not options.plan:
        # Locust would cut the load off; the plan ends it by itself, after the last answers.
        options.duration = max(options.run_time - options.warmup, 1.0)
        options.run_time = None
    Caller.director = Director(environment)


class Caller(User):
    """A caller of a closed loop; in an open loop a place-holder, since arrivals do not wait for callers."""

    wait_time = constant(0)
    director: ClassVar["Director"]

    @task
    def call(self) -> None:
        """Take part until the load ends."""
        self.director.take_part()
        raise StopUser


class Test:
    """What one test keeps and waits for; every test gets a fresh one."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.spawned = Event()
        self.told = Event()  # what the load is and when it starts
        self.started = Event()
        self.over = Event()
        self.word: dict[str, Any] = {}
        self.load: Load | None = None
        self.directory = Path()
        self.ready: list[str] = []
        self.done: list[str] = []
        self.problems: list[str] = []
        self.ended = False
        self.stopped = False


class Director:
    """Starts and ends tests: alone, or as the master or a worker of several processes.

    Workers connect and say that they are ready; the master then names the plan and the moment at which all begin. When
    every worker has written its part, the master ends the test and puts the parts together.
    """

    def __init__(self, environment: Environment) -> None:
        assert environment.runner is not None
        self._environment = environment
        self._runner = environment.runner
        self._options: Any = environment.parsed_options
        self._test = Test(workers=1)
        self._conductor: Any = None
        if isinstance(self._runner, MasterRunner):
            self._runner.register_message("regard.ready", self._on_ready, concurrent=True)
            self._runner.register_message("regard.done", self._on_done, concurrent=True)
        elif isinstance(self._runner, WorkerRunner):
            self._runner.register_message("regard.go", self._on_go, concurrent=True)
        environment.events.test_start.add_listener(self._on_test_start)
        environment.events.spawning_complete.add_listener(lambda **_: self._test.spawned.set())
        environment.events.test_stopping.add_listener(self._on_test_stopping)
        # On a signal Locust works out its exit code before it stops the test.
        environment.events.quitting.add_listener(self._on_test_stopping)

    def take_part(self) -> None:
        """What a user does: call again and again in a closed loop, nothing in an open one."""
        test = self._test
        test.started.wait()
        if test.load is not None and test.load.plan.loop == "closed":
            test.load.keep_calling()
        test.over.wait()

    def _on_test_start(self, **_: Any) -> None:
        if isinstance(self._runner, MasterRunner):
            self._test = Test(workers=self._runner.worker_count)
        else:
            self._test = Test(workers=1)
            self._conductor = gevent.spawn(self._conduct, self._test)

    def _on_test_stopping(self, **_: Any) -> None:
        # Stopped from outside, if the load still runs: what is in flight is recorded as unanswered, and the results are
        # made before Locust goes on to end the process.
        if self._conductor is not None and not self._conductor.ready():
            self._test.stopped = True
            self._conductor.kill()
            if not isinstance(self._runner, WorkerRunner):
                self._make_results(self._test)

    def _conduct(self, test: Test) -> None:
        try:
            assert gevent.get_hub().threadpool.maxsize >= THREAD_POOL, "the thread pool of gevent is too small for gRPC"
            connection = Connection(self._address(), self._options.connections)
            try:
                test.spawned.wait()
                if isinstance(self._runner, WorkerRunner):
                    self._runner.send_message("regard.ready")
                    test.told.wait()
                else:
                    test.word = self._word(test, worker=0, start=time.time() + HEAD_START)
                self._make_load(test, connection)
            finally:
                connection.close()
        except (UnreachableError, OSError, ValueError) as problem:
            test.problems.append(str(problem))
        finally:
            test.started.set()
            test.over.set()
            if isinstance(self._runner, WorkerRunner):
                self._runner.send_message("regard.done", {"problems": test.problems})
            elif not test.stopped:
                gevent.spawn(self._end_test, test)

    def _make_load(self, test: Test, connection: Connection) -> None:
        plan, directory = plan_from_json(test.word["plan"]), Path(test.word["directory"])
        gauges = Gauges(window_ns=window_of(plan))
        fire: Any = self._environment.events.request.fire

        def observe(seen: Seen) -> None:
            problem = None
            if seen.code != OK:
                gauges.example(code=seen.code, details=seen.details)
                problem = RuntimeError(seen.code)
            fire(
                request_type=plan.loop,
                name=seen.traffic,
                response_time=seen.milliseconds,
                response_length=seen.reply_bytes,
                exception=problem,
                context={},
            )

        test.load = load = Load(
            plan=plan,
            worker=test.word["worker"],
            send=connection.send,
            clock_ns=time.monotonic_ns,
            sleep=time.sleep,
            observe=observe,
        )
        try:
            load.start_at(time.monotonic_ns() + round((test.word["start"] - time.time()) * 1e9))
            with watched(load, gauges, status=self._options.status):
                test.started.set()
                load.send_all()
                load.drain()
        finally:
            load.abandon()
            write_records(part_of(directory, RECORDS, load.worker), load.recorder.records())
            health = gauges.health(
                worker=load.worker,
                sent=load.recorder.sent,
                in_flight_ns=load.recorder.in_flight_nanoseconds,
                resident_bytes=psutil.Process().memory_info().rss,
                thread_pool=gevent.get_hub().threadpool.maxsize,
            )
            write_health(part_of(directory, GENERATOR, load.worker), [health])

    def _on_ready(self, msg: Any, **_: Any) -> None:
        test = self._test
        test.ready.append(msg.node_id)
        if len(test.ready) == test.workers:
            start = time.time() + HEAD_START
            for worker, client in enumerate(test.ready):
                self._runner.send_message("regard.go", self._word(test, worker=worker, start=start), client_id=client)

    def _on_go(self, msg: Any, **_: Any) -> None:
        self._test.word = msg.data
        self._test.told.set()

    def _on_done(self, msg: Any, **_: Any) -> None:
        test = self._test
        test.done.append(msg.node_id)
        test.problems.extend(msg.data["problems"])
        if len(test.done) == test.workers or test.problems:
            self._end_test(test)

    def _end_test(self, test: Test) -> None:
        if test.ended:
            return
        test.ended = True
        self._make_results(test)
        if self._options.headless:
            self._runner.quit()
        else:
            self._runner.stop()

    def _make_results(self, test: Test) -> None:
        code = 1 if test.problems else 0
        for problem in test.problems:
            log.error(problem)
        if not test.problems and test.word and not self._options.no_report:
            # Imported late: drawing takes memory and time that the load should not have had to share.
            from loadtest.results import conclude

            outcome = conclude(test.directory)
            code = outcome.exit_code
            log.info("%s\nReport: %s", outcome.sentence, outcome.report)
        if code:
            self._environment.process_exit_code = code

    def _word(self, test: Test, *, worker: int, start: float) -> dict[str, Any]:
        if worker == 0:
            plan = self._plan(test.workers)
            name = f"bench-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
            test.directory = Path(self._options.output or Path("reports", name)).resolve()
            test.directory.mkdir(parents=True, exist_ok=True)
            (test.directory / PLAN).write_text(plan.to_json(), encoding="utf-8")
        plan_text = (test.directory / PLAN).read_text(encoding="utf-8")
        return {"plan": plan_text, "directory": str(test.directory), "worker": worker, "start": start}

    def _plan(self, workers: int) -> Plan:
        options = self._options
        if options.plan:
            return plan_from_json(Path(options.plan).read_text(encoding="utf-8"))
        return Plan(
            address=self._address(),
            loop=options.loop,
            arrivals=options.arrivals,
            rate=options.rate,
            users=self._runner.target_user_count or 1,
            warmup=options.warmup,
            duration=options.duration,
            deadline=options.deadline,
            seed=options.seed,
            workers=workers,
            connections=options.connections,
            classes=parse_classes(options.classes),
            sentences=options.sentences,
        )

    def _address(self) -> str:
        if not self._environment.host:
            raise ValueError("name the server by --host HOST:PORT")
        return self._environment.host.removeprefix("http://").rstrip("/")
