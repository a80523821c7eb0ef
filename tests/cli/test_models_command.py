"""`regard models`: a table for people, a reply for programs."""

import pytest
from google.protobuf.json_format import Parse
from tests.client.fake_server import FakeServer

from regard.cli.main import main
from regard.v1 import model_pb2


def test_models_are_a_table(fake_server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--address", fake_server.address]) == 0
    assert capsys.readouterr().out == (
        "MODEL     VERSION  TASK         LANGUAGES  PROFILE  DIGEST  DESCRIPTION\n"
        "captions  1        captioning   en         cpu      def456  red squares\n"
        "toy *     2        translation  en → es    cpu      abc123  words in capitals\n"
    )


def test_models_are_json(fake_server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--json", "--address", fake_server.address]) == 0
    output = capsys.readouterr().out
    assert output.count("\n") == 1
    assert Parse(output, model_pb2.ListModelsResponse()).models[1].name == "toy"


def test_an_absent_server_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--address", "127.0.0.1:1"]) == 1
    assert capsys.readouterr() == ("", "regard: no server at 127.0.0.1:1; start one with `regard serve`\n")
