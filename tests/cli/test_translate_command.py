"""`regard translate`: one line out for one line in, answers in the forms asked for, errors in words."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from io import StringIO
from pathlib import Path

import grpc
import pytest
from google.protobuf.json_format import Parse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.client.fake_server import FakeServer, answer, refuse, running_fake_server, violation

from regard.cli.main import main
from regard.cli.progress import Progress
from regard.v1 import decoding_pb2, translation_pb2


@pytest.fixture
def address(fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("REGARD_ADDRESS", fake_server.address)
    return fake_server.address


def run_with_stdin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data: bytes, *arguments: str) -> int:
    source = tmp_path / "stdin"
    source.write_bytes(data)
    with source.open(encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        return main(["translate", *arguments])


@pytest.mark.usefixtures("address")
def test_arguments_are_translated_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "one two", "", "three"]) == 0
    assert capsys.readouterr() == ("ONE TWO\n\nTHREE\n", "")


@pytest.mark.usefixtures("address")
def test_a_busy_server_is_asked_until_it_answers_and_no_line_is_lost(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], fake_server: FakeServer
) -> None:
    def busy(
        request: translation_pb2.TranslateRequest, context: grpc.ServicerContext
    ) -> translation_pb2.TranslateResponse:
        if len(fake_server.requests) <= 7:  # more often than one call is tried again by itself
            refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, "full", pushback="1")
        return answer(request, context)

    fake_server.translate = busy
    assert run_with_stdin(monkeypatch, tmp_path, b"one\ntwo\n") == 0
    assert capsys.readouterr() == ("ONE\nTWO\n", "")


@pytest.mark.usefixtures("address")
def test_blank_lines_stay_blank(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_with_stdin(monkeypatch, tmp_path, b"one\n\n\r\ntwo") == 0
    assert capsys.readouterr() == ("ONE\n\n\nTWO\n", "")


@pytest.mark.usefixtures("address")
def test_many_lines_keep_their_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], fake_server: FakeServer
) -> None:
    def uneven(
        request: translation_pb2.TranslateRequest, context: grpc.ServicerContext
    ) -> translation_pb2.TranslateResponse:
        time.sleep(0.03 * (len(fake_server.requests) % 3))
        return answer(request, context)

    fake_server.translate = uneven
    lines = [f"line {number}" for number in range(300)]
    assert run_with_stdin(monkeypatch, tmp_path, "\n".join(lines).encode()) == 0
    assert capsys.readouterr().out.splitlines() == [line.upper() for line in lines]
    assert 1 < len(fake_server.requests) < 50


@pytest.fixture(scope="module")
def shared_address() -> Generator[str]:
    with running_fake_server() as fake:
        yield fake.address


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=25, deadline=None
)
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n")), max_size=50))
def test_as_many_lines_come_out_as_went_in(
    texts: list[str],
    shared_address: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    capsys.readouterr()
    texts = ["first", *texts]
    data = "".join(f"{text}\n" for text in texts).encode()
    run_with_stdin(monkeypatch, tmp_path, data, "--address", shared_address)
    output = capsys.readouterr().out
    assert output.count("\n") == len(texts)
    # What the server answers: capitals, single spaces, nothing for a text that it refuses.
    expected = [
        "" if text.startswith("!") else b" ".join(re.findall(rb"\S+", text.encode())).decode().upper() for text in texts
    ]
    assert [line.split() for line in output.split("\n")[:-1]] == [line.split() for line in expected]


@pytest.mark.usefixtures("address")
def test_line_breaks_in_an_answer_do_not_break_lines(
    capsys: pytest.CaptureFixture[str], fake_server: FakeServer
) -> None:
    def broken(
        request: translation_pb2.TranslateRequest, context: grpc.ServicerContext
    ) -> translation_pb2.TranslateResponse:
        result = translation_pb2.TranslationResult(text="a\nb\r\nc\u2028d\x85e")
        return translation_pb2.TranslateResponse(results=[result])

    fake_server.translate = broken
    assert main(["translate", "x"]) == 0
    assert capsys.readouterr().out == "a b  c d e\n"


@pytest.mark.usefixtures("address")
def test_a_line_that_is_not_utf8_is_named_and_the_others_are_translated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_with_stdin(monkeypatch, tmp_path, b"one\nt\xe9\nthree\n") == 1
    assert capsys.readouterr() == ("ONE\n\nTHREE\n", "regard: line 2: not valid UTF-8 (byte 2 is 0xe9)\n")


@pytest.mark.usefixtures("address")
def test_a_line_that_the_server_refuses_is_named_and_the_others_are_translated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_with_stdin(monkeypatch, tmp_path, b"one\n!two\nthree\n") == 1
    assert capsys.readouterr() == ("ONE\n\nTHREE\n", "regard: line 2: bad !two\n")


@pytest.mark.usefixtures("address")
def test_an_argument_that_is_not_utf8_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "one", "t\udce9"]) == 1
    assert capsys.readouterr() == ("ONE\n\n", "regard: text 2: not valid UTF-8\n")


@pytest.mark.usefixtures("address")
def test_alignments_follow_each_translation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "--alignments", "one two", "", "three"]) == 0
    assert capsys.readouterr().out == "ONE TWO\n  one→ONE  two→TWO\n\nTHREE\n  three→THREE\n"


@pytest.mark.usefixtures("address")
def test_json_is_one_reply_a_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_with_stdin(monkeypatch, tmp_path, b"a \xc3\xb1\n\n!x\n\xff\n", "--json")
    lines = capsys.readouterr().out.splitlines()
    replies = [Parse(line, translation_pb2.TranslateResponse()) for line in lines]
    assert [reply.results[0].text for reply in replies] == ["A Ñ", "", "", ""]
    assert [reply.results[0].error.message for reply in replies[2:]] == ["bad !x", "not valid UTF-8 (byte 1 is 0xff)"]
    assert json.loads(lines[0])["model"]["name"] == "toy"
    assert "Ñ" in lines[0]


@pytest.mark.usefixtures("address")
def test_n_best_lists_are_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "--beam", "3", "--n-best", "2", "a", "b"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert rows == [
        ["1", "1", "1", "-0.5000", "A"],
        ["1", "1", "2", "-2.0000", "A 2"],
        ["2", "1", "1", "-0.5000", "B"],
        ["2", "1", "2", "-2.0000", "B 2"],
    ]


@pytest.mark.usefixtures("address")
def test_options_reach_the_server(fake_server: FakeServer) -> None:
    arguments = ["--model", "toy", "--version", "2", "--target", "es", "--beam", "4", "--length-penalty", "0.5"]
    assert main(["translate", "a", *arguments]) == 0
    (request,) = fake_server.requests
    assert (request.model, request.version, request.target_language) == ("toy", "2", "es")
    assert request.decoding == decoding_pb2.DecodingOptions(beam_size=4, length_penalty=0.5)
    assert not request.HasField("attention")


@pytest.mark.usefixtures("address")
def test_attention_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.svg"
    assert main(["translate", "one two", "--attention", str(path)]) == 0
    assert capsys.readouterr() == ("ONE TWO\n", "")
    drawn = path.read_text(encoding="utf-8")
    assert "English → Spanish" in drawn
    assert ">TWO<" in drawn


@pytest.mark.usefixtures("address")
def test_the_first_lines_of_stdin_are_drawn(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fake_server: FakeServer
) -> None:
    path = tmp_path / "a.svg"
    data = b"".join(b"word%d\n" % number for number in range(100))
    assert run_with_stdin(monkeypatch, tmp_path, data, "--attention", str(path)) == 0
    drawn = path.read_text(encoding="utf-8")
    assert ">WORD5<" in drawn
    assert ">WORD6<" not in drawn
    asked = [len(request.texts) for request in fake_server.requests if request.HasField("attention")]
    assert asked == [6], "attention of a line that is not drawn costs time, and would be in the output of --json"


@pytest.mark.usefixtures("address")
def test_a_picture_of_nothing_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "", "--attention", str(tmp_path / "a.png")]) == 1
    assert "no sentence" in capsys.readouterr().err


def test_a_picture_that_cannot_be_written_is_told_before_anything_is_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["translate", "x", "--attention", str(tmp_path / "none" / "a.png")]) == 1
    assert "there is no directory" in capsys.readouterr().err
    assert main(["translate", "x", "--attention", "a.gif"]) == 2


@pytest.mark.usefixtures("address")
def test_a_failing_call_ends_the_command_and_keeps_what_was_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], fake_server: FakeServer
) -> None:
    def fail_later(
        request: translation_pb2.TranslateRequest, context: grpc.ServicerContext
    ) -> translation_pb2.TranslateResponse:
        if "line 40" in request.texts:
            context.abort(grpc.StatusCode.INTERNAL, "internal error 7f")
        return answer(request, context)

    fake_server.translate = fail_later
    lines = [f"line {number}" for number in range(100)]
    assert run_with_stdin(monkeypatch, tmp_path, "\n".join(lines).encode()) == 1
    output, error = capsys.readouterr()
    assert output.splitlines() == [line.upper() for line in lines[:32]]
    assert error == "regard: stopped after 32 texts: the server failed: internal error 7f\n"


@pytest.mark.usefixtures("address")
def test_a_wrong_option_is_told_in_the_words_of_the_server(
    capsys: pytest.CaptureFixture[str], fake_server: FakeServer
) -> None:
    def fail(
        request: translation_pb2.TranslateRequest, context: grpc.ServicerContext
    ) -> translation_pb2.TranslateResponse:
        refuse(context, grpc.StatusCode.INVALID_ARGUMENT, "bad", violation("decoding.beam_size", "99 is\nabove 16"))

    fake_server.translate = fail
    assert main(["translate", "x", "--beam", "99"]) == 1
    assert capsys.readouterr() == ("", "regard: decoding.beam_size: 99 is above 16\n")


def test_an_absent_server_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "x", "--address", "127.0.0.1:1"]) == 1
    assert capsys.readouterr() == ("", "regard: no server at 127.0.0.1:1; start one with `regard serve`\n")


def test_lists_and_alignments_do_not_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "x", "--n-best", "2", "--alignments"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_closed_stdin_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["translate"]) == 1
    assert "stdin" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "soon"])
def test_a_timeout_is_a_number_of_seconds(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "x", "--timeout", seconds]) == 2
    assert "seconds" in capsys.readouterr().err


def started(*arguments: str) -> subprocess.Popen[bytes]:
    """Start `regard translate` as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "regard.cli.main", "translate", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        # A suite that was started in the background ignores Ctrl-C, and its children would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def test_a_reader_that_goes_away_ends_the_command_quietly(address: str) -> None:
    with started("--address", address) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdin.write(b"one\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"ONE\n"
        process.stdout.close()
        process.stdin.write(b"two\n")
        process.stdin.flush()
        assert process.wait(120) == 141
        assert process.stderr.read() == b""


def test_ctrl_c_ends_a_waiting_call_at_once(address: str, fake_server: FakeServer) -> None:
    def slow(
        request: translation_pb2.TranslateRequest, context: grpc.ServicerContext
    ) -> translation_pb2.TranslateResponse:
        for _ in range(300):
            if not context.is_active():
                break
            time.sleep(0.1)
        return translation_pb2.TranslateResponse()

    fake_server.translate = slow
    with started("--address", address, "x") as process:
        while not fake_server.requests and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
        assert process.communicate() == (b"", b"")


def test_progress_is_shown_late_and_removed() -> None:
    times = iter([0.0, 1.0, 2.5, 2.6, 3.5])
    stream = StringIO()
    progress = Progress(stream, shown=True, clock=lambda: next(times))
    progress.update(10)
    assert stream.getvalue() == ""
    progress.update(2500)
    assert stream.getvalue() == "\r2,500 lines, 1,000/s"
    progress.update(2600)
    assert stream.getvalue() == "\r2,500 lines, 1,000/s"
    progress.clear()
    assert stream.getvalue().endswith("\r" + " " * 20 + "\r")


def test_progress_is_not_shown_where_nobody_looks() -> None:
    times = iter([0.0, 10.0])
    stream = StringIO()
    Progress(stream, shown=False, clock=lambda: next(times)).update(10)
    assert stream.getvalue() == ""
