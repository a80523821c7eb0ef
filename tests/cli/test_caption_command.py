"""`regard caption`: one line out for each picture, in order; errors in words; slides that overwrite nothing."""

import io
import os
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path

import grpc
import pytest
from google.protobuf.json_format import Parse
from PIL import Image
from tests.client.fake_server import FakeServer, answer_pictures, refuse, violation

from regard.cli.main import main
from regard.cli.progress import Progress
from regard.v1 import captioning_pb2, decoding_pb2


@pytest.fixture
def address(fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("REGARD_ADDRESS", fake_server.address)
    return fake_server.address


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(**files: str) -> None:
    for name, text in files.items():
        Path(f"{name}.jpg").write_text(text)


def picture() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (60, 40), "teal").save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.usefixtures("address", "here")
def test_one_picture_gives_its_caption_alone(capsys: pytest.CaptureFixture[str]) -> None:
    write(dog="a brown dog")
    assert main(["caption", "dog.jpg"]) == 0
    assert capsys.readouterr() == ("a brown dog\n", "")


@pytest.mark.usefixtures("address", "here")
def test_several_pictures_give_their_names_too_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    write(dog="a brown dog", cat="a cat")
    assert main(["caption", "dog.jpg", "cat.jpg"]) == 0
    assert capsys.readouterr() == ("dog.jpg\ta brown dog\ncat.jpg\ta cat\n", "")


@pytest.mark.usefixtures("address")
def test_a_directory_gives_all_its_pictures_in_few_calls(
    here: Path, capsys: pytest.CaptureFixture[str], fake_server: FakeServer
) -> None:
    def uneven(request: captioning_pb2.CaptionRequest, context: grpc.ServicerContext) -> captioning_pb2.CaptionResponse:
        time.sleep(0.03 * (len(fake_server.caption_requests) % 3))
        return answer_pictures(request, context)

    fake_server.caption = uneven
    (here / "in").mkdir()
    for number in range(100):
        (here / "in" / f"{number:03}.png").write_text(f"picture {number}")
    assert main(["caption", "in"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"in/{number:03}.png\tpicture {number}" for number in range(100)]
    assert len(fake_server.caption_requests) == 7


@pytest.mark.usefixtures("address", "here")
def test_what_fails_is_named_and_the_others_are_captioned(capsys: pytest.CaptureFixture[str]) -> None:
    write(dog="a dog", bad="!bad", cat="a cat")
    Path("empty").mkdir()
    assert main(["caption", "dog.jpg", "bad.jpg", "none.jpg", "empty", "cat.jpg"]) == 1
    output, error = capsys.readouterr()
    assert output == "dog.jpg\ta dog\nbad.jpg\t\nnone.jpg\t\ncat.jpg\ta cat\n"
    first, *others = error.splitlines()
    assert first.startswith("regard: empty: no picture in this directory")
    assert others == ["regard: bad.jpg: is no picture", "regard: none.jpg: No such file or directory"]


@pytest.mark.usefixtures("address", "here")
def test_a_single_picture_that_fails_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    write(bad="!bad")
    assert main(["caption", "bad.jpg"]) == 1
    assert capsys.readouterr() == ("\n", "regard: bad.jpg: is no picture\n")


@pytest.mark.usefixtures("address")
def test_stdin_is_a_picture(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "stdin").write_text("a dog")
    with (here / "stdin").open("rb") as stdin:
        monkeypatch.setattr("regard.client.batching.image_files._STDIN", stdin.fileno())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stdin))
        assert main(["caption", "-"]) == 0
    assert capsys.readouterr() == ("a dog\n", "")


@pytest.mark.usefixtures("here")
def test_stdin_is_read_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["caption", "-", "-"]) == 2
    assert "once" in capsys.readouterr().err


@pytest.mark.usefixtures("address", "here")
def test_names_cannot_break_lines_or_columns(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a\tb\nc.jpg").write_text("a dog")
    write(cat="a cat")
    assert main(["caption", "a\tb\nc.jpg", "cat.jpg"]) == 0
    assert capsys.readouterr().out == "a b c.jpg\ta dog\ncat.jpg\ta cat\n"


@pytest.mark.usefixtures("address", "here")
def test_n_best_lists_are_rows(capsys: pytest.CaptureFixture[str]) -> None:
    write(dog="a dog")
    assert main(["caption", "--beam", "3", "--n-best", "2", "dog.jpg"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert rows == [["dog.jpg", "1", "-0.5000", "a dog"], ["dog.jpg", "2", "-2.0000", "a dog 2"]]


@pytest.mark.usefixtures("address", "here")
def test_json_is_one_reply_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    write(dog="a dog", bad="!bad")
    assert main(["caption", "--json", "--maps", "dog.jpg", "bad.jpg", "none.jpg"]) == 1
    lines = capsys.readouterr().out.splitlines()
    replies = [Parse(line, captioning_pb2.CaptionResponse()) for line in lines]
    assert [reply.results[0].text for reply in replies] == ["a dog", "", ""]
    assert [reply.results[0].error.message for reply in replies[1:]] == ["is no picture", "No such file or directory"]
    assert list(replies[0].results[0].hypotheses[0].attention.shape) == [2, 2, 3]


@pytest.mark.usefixtures("address", "here")
def test_options_reach_the_server_and_no_maps_are_asked_for(fake_server: FakeServer) -> None:
    write(dog="a dog")
    arguments = ["--model", "toy", "--version", "2", "--beam", "4", "--max-length", "9", "--no-repeat-ngram", "0"]
    assert main(["caption", "dog.jpg", *arguments]) == 0
    (request,) = fake_server.caption_requests
    assert (request.model, request.version) == ("toy", "2")
    assert request.decoding == decoding_pb2.DecodingOptions(beam_size=4, max_length=9, no_repeat_ngram=0)
    assert not request.HasField("attention")


@pytest.mark.usefixtures("address")
def test_an_overlay_is_drawn(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "photo.jpg").write_bytes(picture())
    assert main(["caption", "photo.jpg", "--overlay", "slide.svg"]) == 0
    assert capsys.readouterr() == ("a red square\n", "")
    drawn = (here / "slide.svg").read_text(encoding="utf-8")
    assert all(f">{word}<" in drawn for word in ("a red square", "red", "photo.jpg · toy 2"))


@pytest.mark.usefixtures("address")
def test_overlays_of_several_pictures_lie_in_a_directory(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a/photo.jpg", "b/photo.png"):
        (here / name).parent.mkdir()
        (here / name).write_bytes(picture())
    (here / "b" / "text.jpg").write_text("a dog")  # which the fake server captions
    assert main(["caption", "a", "b", "--overlay", "slides"]) == 1
    assert sorted(path.name for path in (here / "slides").iterdir()) == ["photo-2.png", "photo.png"]
    output, error = capsys.readouterr()
    assert output == "a/photo.jpg\ta red square\nb/photo.png\ta red square\nb/text.jpg\ta dog\n"
    assert error.startswith("regard: b/text.jpg: no overlay: cannot be read")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["photo.jpg", "--overlay", "photo.jpg"], 2, "--overlay: a slide is a .png"),
        (["photo.png", "--overlay", "photo.png"], 2, "is one of the pictures"),
        (["photo.jpg", "photo.png", "--overlay", "slide.png"], 2, "name a directory"),
        (["photo.jpg", "photo.gif", "--overlay", "."], 2, "among the pictures"),
        (["photo.jpg", "--overlay", "none/slide.png"], 1, "there is no directory 'none'"),
        (["photo.jpg", "--maps"], 2, "--maps goes with --json"),
        ([], 2, "FILE"),
    ],
)
def test_what_cannot_be_done_is_told_before_anything_is_sent(
    here: Path, arguments: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("photo.jpg", "photo.png", "photo.gif"):
        (here / name).write_bytes(picture())
    assert main(["caption", *arguments, "--address", "127.0.0.1:1"]) == status
    output, error = capsys.readouterr()
    assert output == ""
    assert message in error
    assert error.count("\n") == 1
    assert (here / "photo.png").read_bytes() == picture()


@pytest.mark.usefixtures("here")
def test_an_absent_server_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    write(dog="a dog")
    assert main(["caption", "dog.jpg", "--address", "127.0.0.1:1"]) == 1
    assert capsys.readouterr() == ("", "regard: no server at 127.0.0.1:1; start one with `regard serve`\n")


@pytest.mark.usefixtures("address", "here")
def test_a_wrong_option_is_told_in_the_words_of_the_server(
    capsys: pytest.CaptureFixture[str], fake_server: FakeServer
) -> None:
    def fail(request: captioning_pb2.CaptionRequest, context: grpc.ServicerContext) -> captioning_pb2.CaptionResponse:
        refuse(context, grpc.StatusCode.INVALID_ARGUMENT, "bad", violation("decoding.beam_size", "99 is above 16"))

    fake_server.caption = fail
    write(dog="a dog", cat="a cat")
    assert main(["caption", "dog.jpg", "cat.jpg", "--beam", "99"]) == 1
    assert capsys.readouterr() == ("", "regard: decoding.beam_size: 99 is above 16\n")


@pytest.mark.usefixtures("address", "here")
def test_a_busy_server_is_asked_until_it_answers(capsys: pytest.CaptureFixture[str], fake_server: FakeServer) -> None:
    def busy(request: captioning_pb2.CaptionRequest, context: grpc.ServicerContext) -> captioning_pb2.CaptionResponse:
        if len(fake_server.caption_requests) <= 7:  # more often than one call is tried again by itself
            refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, "full", pushback="1")
        return answer_pictures(request, context)

    fake_server.caption = busy
    write(dog="a dog")
    assert main(["caption", "dog.jpg"]) == 0
    assert capsys.readouterr() == ("a dog\n", "")


@pytest.mark.usefixtures("address")
def test_files_are_read_when_it_is_their_turn(
    here: Path, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a thousand pictures only those are in memory that are under way."""
    from regard.client.batching.image_files import ImageFile

    reads: list[int] = []
    most: list[int] = []
    read = ImageFile.read

    def counted(self: ImageFile) -> bytes:
        reads.append(1)
        return read(self)

    def slow(request: captioning_pb2.CaptionRequest, context: grpc.ServicerContext) -> captioning_pb2.CaptionResponse:
        if len(fake_server.caption_requests) == 1:
            time.sleep(0.5)  # the reader could read on meanwhile
            most.append(len(reads))
        return answer_pictures(request, context)

    monkeypatch.setattr(ImageFile, "read", counted)
    fake_server.caption = slow
    (here / "in").mkdir()
    for number in range(1000):
        (here / "in" / f"{number:04}.png").write_text("x")
    assert main(["caption", "in"]) == 0
    assert len(reads) == 1000
    assert most[0] <= 11 * 16 + 1


def started(*arguments: str) -> subprocess.Popen[bytes]:
    """Start `regard caption` as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "regard.cli.main", "caption", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(str(Path(path).resolve()) for path in sys.path)},
        # A suite that was started in the background ignores Ctrl-C, and its children would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def test_a_reader_that_goes_away_ends_the_command_quietly(address: str, tmp_path: Path) -> None:
    for number in range(3000):
        (tmp_path / f"{number:04}.png").write_text("word " * 100)
    with started("--address", address, str(tmp_path)) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline().endswith(b"word \n")
        process.stdout.close()
        assert process.wait(120) == 141
        assert process.stderr.read() == b""


def test_ctrl_c_ends_a_waiting_call_at_once(address: str, tmp_path: Path, fake_server: FakeServer) -> None:
    def slow(request: captioning_pb2.CaptionRequest, context: grpc.ServicerContext) -> captioning_pb2.CaptionResponse:
        while context.is_active():
            time.sleep(0.05)
        return captioning_pb2.CaptionResponse()

    fake_server.caption = slow
    (tmp_path / "a.png").write_text("x")
    with started("--address", address, str(tmp_path / "a.png")) as process:
        while not fake_server.caption_requests and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
        assert process.communicate() == (b"", b"")


def test_captioning_loads_nothing_heavy(address: str, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("x")
    code = (
        "import sys; from regard.cli.main import main; main(['caption', *sys.argv[1:]]); "
        "sys.exit(str([name for name in ('matplotlib', 'PIL', 'torch', 'onnxruntime') if name in sys.modules] or ''))"
    )
    finished = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.png"), "--address", address],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (finished.stdout, finished.stderr.strip()) == ("x\n", "")


def test_a_known_end_has_a_bar() -> None:
    times = iter([0.0, 4.0])
    stream = StringIO()
    Progress(stream, shown=True, unit="pictures", total=40, clock=lambda: next(times)).update(10)
    assert stream.getvalue() == f"\r{'█' * 7}{'░' * 23} 10 of 40 pictures, 2.5/s"
