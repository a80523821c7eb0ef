"""From the first moment to the last: loading, ready, draining, gone; in this process and as one of its own."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from google.rpc import error_details_pb2  # pyright: ignore[reportMissingTypeStubs] - see regard.server.services.status
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (  # pyright: ignore[reportMissingTypeStubs] - has none
    ProtoReflectionDescriptorDatabase,
)
from tests.server.serving import (
    NULL_MODELS,
    PATIENCE,
    SETTINGS,
    Barrier,
    ServedDecoder,
    connect,
    detail_of,
    eventually,
    fake_model,
    serving,
)

from regard.contract.bundle import LoadedBundle
from regard.server.errors import BundleError, SettingsError
from regard.server.front.application import Application
from regard.server.front.health import LIVENESS, NOT_SERVING, SERVING
from regard.v1 import model_pb2, model_pb2_grpc, translation_pb2, translation_pb2_grpc

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def test_health_answers_and_calls_are_put_off_until_the_models_are_loaded() -> None:
    release = threading.Event()

    def slowly(bundle: LoadedBundle) -> ServedDecoder:
        assert release.wait(PATIENCE)
        return fake_model()

    async def run() -> None:
        application = Application(SETTINGS, open_bundle=slowly)
        await application.listen()
        loading = asyncio.create_task(application.load())
        served = connect(application)
        try:
            assert await served.health() == NOT_SERVING
            assert await served.health(LIVENESS) == SERVING
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await served.translate("echo1")
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
            assert refused.value.details() == "the server is loading"
            assert detail_of(refused.value, error_details_pb2.RetryInfo).retry_delay.ToMilliseconds() > 0
            release.set()
            await loading
            assert await served.health() == SERVING
            assert await served.health("regard.v1.TranslationService") == SERVING
            assert (await served.translate("echo1")).results[0].text
        finally:
            await served.channel.close()
            await application.close()

    asyncio.run(run())


def test_a_model_that_cannot_decode_one_sentence_is_not_served() -> None:
    def fail(sources: object) -> None:
        raise RuntimeError

    async def run() -> None:
        with pytest.raises(BundleError, match="model null/1 cannot decode its first sentence: internal error"):
            async with serving(fake_model(before_step=fail)):
                pass

    asyncio.run(run())


def test_no_models_is_not_ready(tmp_path: Path) -> None:
    async def run() -> None:
        with pytest.raises(BundleError):
            async with serving(models=(tmp_path,)):
                pass

    asyncio.run(run())


def test_a_drain_lets_running_calls_finish_and_refuses_new_ones() -> None:
    barrier = Barrier()

    async def run() -> None:
        async with serving(fake_model(before_step=barrier), grace=PATIENCE) as served:
            barrier.arm()
            running = asyncio.ensure_future(served.translate("echo1"))
            await eventually(barrier.reached.is_set)
            drain = asyncio.create_task(served.application.drain(asyncio.Event()))
            await eventually(lambda: served.application.health.status("") == NOT_SERVING)
            await asyncio.sleep(0.05)  # And what comes right after it.
            assert await served.health() == NOT_SERVING
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await served.translate("echo2")
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
            assert detail_of(refused.value, error_details_pb2.RetryInfo).retry_delay.ToMilliseconds() > 0
            assert not drain.done()
            barrier.lift()
            await asyncio.wait_for(drain, PATIENCE)
            assert (await running).results[0].text

    asyncio.run(run())


def test_calls_are_still_taken_during_the_pause_before_a_drain() -> None:
    async def run() -> None:
        async with serving(fake_model(), drain_pause=PATIENCE) as served:
            cut = asyncio.Event()
            drain = asyncio.create_task(served.application.drain(cut))
            await eventually(lambda: served.application.health.status("") == NOT_SERVING)
            await asyncio.sleep(0.05)  # And what comes right after it.
            assert await served.health() == NOT_SERVING
            assert (await served.translate("echo1")).results[0].text
            cut.set()
            await asyncio.wait_for(drain, PATIENCE)

    asyncio.run(run())


def test_what_outlasts_the_grace_is_told_as_unavailable() -> None:
    barrier = Barrier()

    async def run() -> None:
        async with serving(fake_model(before_step=barrier), workers=1, grace=0.1) as served:
            barrier.arm()
            running = asyncio.ensure_future(served.translate("echo1"))
            await eventually(barrier.reached.is_set)
            await asyncio.wait_for(served.application.drain(asyncio.Event()), PATIENCE)
            closing = asyncio.create_task(served.application.close())
            with pytest.raises(grpc.aio.AioRpcError) as cut:
                await running
            assert cut.value.code() is grpc.StatusCode.UNAVAILABLE
            barrier.lift()
            await closing

    asyncio.run(run())


def test_dead_workers_show_in_liveness(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with serving(fake_model()) as served:
            assert served.application.loaded is not None
            monkeypatch.setattr(served.application.loaded.engine, "alive", lambda: False)
            await eventually(lambda: served.application.health.status(LIVENESS) == NOT_SERVING)
            assert await served.health() == NOT_SERVING

    asyncio.run(run())


def test_a_second_server_on_the_port_is_refused_by_the_name_of_the_flag() -> None:
    async def run() -> None:
        async with serving(fake_model()) as served:
            second = Application(replace(SETTINGS, address=f"127.0.0.1:{served.application.port}"))
            with pytest.raises(SettingsError, match="--address: cannot listen on"):
                await second.listen()
            await second.close()
            assert (await served.translate("echo1")).results[0].text

    asyncio.run(run())


def services_by_reflection(port: int) -> set[str]:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        return set(ProtoReflectionDescriptorDatabase(channel).get_services())


def test_reflection_lists_the_services_unless_it_is_off() -> None:
    async def run() -> None:
        async with serving(fake_model()) as served:
            names = await asyncio.to_thread(services_by_reflection, served.application.port)
            assert {"regard.v1.TranslationService", "regard.v1.ModelService", "grpc.health.v1.Health"} <= names
        async with serving(fake_model(), reflection=False) as served:
            with pytest.raises(grpc.RpcError, match="UNIMPLEMENTED"):
                await asyncio.to_thread(services_by_reflection, served.application.port)

    asyncio.run(run())


def test_frequent_pings_do_not_cost_the_connection() -> None:
    barrier = Barrier()

    async def run() -> None:
        async with serving(fake_model(before_step=barrier)) as served:
            barrier.arm()
            options = [("grpc.keepalive_time_ms", 1000), ("grpc.http2.max_pings_without_data", 0)]
            async with grpc.aio.insecure_channel(f"127.0.0.1:{served.application.port}", options=options) as channel:
                stub = translation_pb2_grpc.TranslationServiceStub(channel)
                call = stub.Translate(translation_pb2.TranslateRequest(texts=["echo1"]), timeout=PATIENCE)
                waiting = asyncio.ensure_future(call)
                await asyncio.sleep(5.6)  # By default gRPC has had enough after 5 s.
                barrier.lift()
                assert (await waiting).results[0].text

    asyncio.run(run())


def test_connections_are_closed_at_their_age_without_cutting_a_call() -> None:
    barrier = Barrier()

    async def run() -> None:
        async with serving(fake_model(before_step=barrier), max_connection_age=0.2) as served:
            barrier.arm()
            running = asyncio.ensure_future(served.translate("echo1"))
            await asyncio.sleep(0.5)
            barrier.lift()
            assert (await running).results[0].text
            # An old connection that carries nothing is gone.
            await eventually(lambda: served.channel.get_state() is grpc.ChannelConnectivity.IDLE)
            assert (await served.translate("echo1")).results[0].text

    asyncio.run(run())


class Server:
    """`python -m regard.server` over the null bundle."""

    def __init__(self, folder: Path, *flags: str, ctrl_c: signal.Handlers = signal.SIG_DFL) -> None:
        self.port_file = folder / "port"
        common = ("--models", str(NULL_MODELS), "--address", "127.0.0.1:0", "--metrics-address", "off")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "regard.server", *common, "--port-file", str(self.port_file), *flags],
            cwd=folder,
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Whatever the parent of the tests ignores, as `nohup` does SIGHUP.
            preexec_fn=lambda: (signal.signal(signal.SIGINT, ctrl_c), signal.signal(signal.SIGHUP, signal.SIG_DFL)),
        )

    def ready(self) -> int:
        """The port."""
        end = time.monotonic() + PATIENCE
        while not self.port_file.exists():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < end
            time.sleep(0.01)
        return int(self.port_file.read_text())

    def end(self) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, err


@contextmanager
def process(folder: Path, *flags: str, ctrl_c: signal.Handlers = signal.SIG_DFL) -> Generator[Server]:
    server = Server(folder, *flags, ctrl_c=ctrl_c)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.communicate()


def heavy(
    port: int, *, texts: int, timeout: float = PATIENCE
) -> tuple[grpc.Channel, list[grpc.Future[translation_pb2.TranslateResponse]]]:
    """Twenty calls that have arrived; with 2 texts each they take about a second, with 40 much longer."""
    channel = grpc.insecure_channel(f"127.0.0.1:{port}")
    grpc.channel_ready_future(channel).result(timeout=PATIENCE)
    request = translation_pb2.TranslateRequest(texts=["echo " * 100] * texts)
    stub = translation_pb2_grpc.TranslationServiceStub(channel)
    calls: list[grpc.Future[translation_pb2.TranslateResponse]] = [
        stub.Translate.future(request, timeout=timeout) for _ in range(20)
    ]
    # Requests of one connection are taken in order.
    model_pb2_grpc.ModelServiceStub(channel).ListModels(model_pb2.ListModelsRequest(), timeout=PATIENCE)
    return channel, calls


def call_until_refused(channel: grpc.Channel) -> None:
    """Call again and again, for a signal takes its time to come through; raises the refusal."""
    stub = translation_pb2_grpc.TranslationServiceStub(channel)
    while True:
        stub.Translate(translation_pb2.TranslateRequest(texts=["echo"]), timeout=PATIENCE)


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGHUP])
def test_a_process_says_where_it_serves_and_stops_gently(tmp_path: Path, stop: signal.Signals) -> None:
    with process(tmp_path, "--grace", str(PATIENCE)) as server:
        port = server.ready()
        for texts in (2, 6, 18):
            channel, calls = heavy(port, texts=texts)
            if not all(call.done() for call in calls):  # They may be, if this process alone was held up.
                break
            channel.close()
        else:
            pytest.fail("no call was running when the signal was due")
        with channel:
            server.process.send_signal(stop)
            with pytest.raises(grpc.RpcError, match="UNAVAILABLE"):
                call_until_refused(channel)
            assert all(len(call.result().results) == texts for call in calls)
            code, out, err = server.end()
    assert code == 0
    assert re.fullmatch(rf"serving null/1 on 127\.0\.0\.1:{port} \(cpu, \d+ workers?\)\n", out)
    assert "Traceback" not in err
    assert not server.port_file.exists()


def test_a_process_does_not_wait_beyond_its_grace_for_calls_to_finish(tmp_path: Path) -> None:
    with process(tmp_path, "--grace", "0.5") as server:
        channel, calls = heavy(server.ready(), texts=40)
        with channel:
            server.process.send_signal(signal.SIGTERM)
            code, _, err = server.end()
            assert code == 0
            assert "Traceback" not in err
            errors = [str(error) for call in calls if (error := call.exception()) is not None]
            assert errors
            assert all("UNAVAILABLE" in error for error in errors)


def test_a_second_signal_cuts_the_grace_short(tmp_path: Path) -> None:
    with process(tmp_path, "--grace", str(PATIENCE)) as server:
        channel, calls = heavy(server.ready(), texts=40)
        with channel:
            server.process.send_signal(signal.SIGINT)
            time.sleep(0.2)
            server.process.send_signal(signal.SIGTERM)
            code, _, _ = server.end()
            assert code == 0
            assert any(call.exception() is not None for call in calls)


def test_a_server_started_to_ignore_ctrl_c_is_spared_by_it_and_still_ends_at_sigterm(tmp_path: Path) -> None:
    with process(tmp_path, ctrl_c=signal.SIG_IGN) as server:
        server.ready()
        server.process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(0.5)
        server.process.send_signal(signal.SIGTERM)
        code, _, err = server.end()
        assert code == 0
        assert "SIGTERM" in err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--device", "cuda"], "device cuda"),
        (["--models", "absent"], "absent"),
        (["--profile", "unheard-of"], "unheard-of"),
        (["--default-model", "unheard-of"], "unheard-of"),
        (["--workers", "-1"], "--workers: must be between 1 and 1024, got -1"),
        (["--port-file", "absent/port"], "--port-file: cannot write absent/port"),
    ],
)
def test_a_process_that_cannot_start_says_why_in_one_line(tmp_path: Path, flags: list[str], said: str) -> None:
    with process(tmp_path, *flags) as server:
        code, out, err = server.end()
    assert code == 1
    assert out == ""
    (line,) = err.splitlines()
    assert said in line


def test_a_process_on_a_taken_port_says_so_in_one_line(tmp_path: Path) -> None:
    with process(tmp_path) as server:
        port = server.ready()
        (tmp_path / "other").mkdir()
        with process(tmp_path / "other", "--address", f"127.0.0.1:{port}") as second:
            code, _, err = second.end()
        assert code == 1
        (line,) = err.splitlines()
        assert line.startswith(f"--address: cannot listen on 127.0.0.1:{port}")


def test_help_needs_nothing_but_the_standard_library() -> None:
    script = (
        "import runpy, sys\n"
        "sys.argv = ['server', '--help']\n"
        "try: runpy.run_module('server', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "assert not {'grpc', 'onnxruntime', 'numpy'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)


def test_serving_lets_the_event_loop_have_the_interpreter_soon() -> None:
    script = (
        "import sys, pathlib\n"
        "from regard.server.front.process import serve\n"
        "from regard.server.settings import ServerSettings\n"
        "assert serve(ServerSettings(models=(pathlib.Path('absent'),), address='127.0.0.1:0')) == 1\n"
        "assert sys.getswitchinterval() < 0.001"
    )
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=ENVIRONMENT, check=True, stderr=subprocess.DEVNULL)
