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
from locust.env import Environment
from locust.exception import StopUser
from locust.runners import MasterRunner, WorkerRunner

from regard.loadtest.load.connection import Connection, UnreachableError
from regard.loadtest.load.gauges import Gauges, write_health
from regard.loadtest.load.load import Load, Seen, window_of
from regard.loadtest.load.options import add_options, plan_of
from regard.loadtest.load.plan import plan_from_json
from regard.loadtest.load.recorder import OK, write_records
from regard.loadtest.load.run_directory import GENERATOR, PLAN, RECORDS, part_of
from regard.loadtest.load.watch import watched

THREAD_POOL = 256
# Seconds between the word to go and the first moment at which a request may be due: time to draw the schedule. What it
# takes to make the payloads, which every process does for itself, comes on top.
HEAD_START = 0.5

log = logging.getLogger(__name__)

gevent.get_hub().threadpool.maxsize = THREAD_POOL
grpc_gevent.init_gevent()


events.init_command_line_parser.add_listener(add_options)


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
        self.directory: Path | None = None  # known once the plan is
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
                    test.word = {**self._prepare(test), "worker": 0}
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
        if len(test.ready) < test.workers:
            return
        try:
            word = self._prepare(test)
        except (OSError, ValueError) as problem:
            test.problems.append(str(problem))
            self._end_test(test)
            return
        for worker, client in enumerate(test.ready):
            self._runner.send_message("regard.go", {**word, "worker": worker}, client_id=client)

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
        if test.directory is not None and not test.problems and not self._options.no_report:
            # Imported late: drawing takes memory and time that the load should not have had to share.
            from regard.loadtest.report.results import conclude

            outcome = conclude(test.directory)
            code = outcome.exit_code
            log.info("%s\nReport: %s", outcome.sentence, outcome.report)
        if code:
            self._environment.process_exit_code = code

    def _prepare(self, test: Test) -> dict[str, Any]:
        """Fix the plan, the folder and the start: what every worker must be told. Raises OSError or ValueError."""
        users = self._runner.target_user_count or 1
        began = time.monotonic()
        plan = plan_of(self._options, address=self._address(), users=users, workers=test.workers).to_json()
        name = f"bench-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
        directory = Path(self._options.output or Path("reports", name)).resolve()
        directory.mkdir(parents=True, exist_ok=True)
        (directory / PLAN).write_text(plan, encoding="utf-8")
        test.directory = directory
        making = (time.monotonic() - began) * test.workers
        return {"plan": plan, "directory": str(directory), "start": time.time() + HEAD_START + making}

    def _address(self) -> str:
        if not self._environment.host:
            raise ValueError("name the server by --host HOST:PORT")
        return self._environment.host.removeprefix("http://").rstrip("/")
