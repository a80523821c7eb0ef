"""Where settings come from, which one wins, and what is refused."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

import pytest

from regard.server.errors import SettingsError
from regard.server.front.configuration import add_arguments, read_settings
from regard.server.front.processors import available_processors
from regard.server.settings import Limits, ServerSettings, split_address


def read(*flags: str, environment: dict[str, str] | None = None) -> ServerSettings:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return read_settings(parser.parse_args(flags), environment or {})


def test_nothing_set_gives_the_defaults() -> None:
    assert read() == ServerSettings()


def test_a_flag_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "regard.toml"
    file.write_text("rows = 20\nqueue-limit = 2000\ngrace = 3\n")
    settings = read("--config", str(file), "--rows", "22", environment={"REGARD_ROWS": "21", "REGARD_GRACE": "4.5"})
    assert (settings.rows, settings.queue_limit, settings.grace) == (22, 2000, 4.5)


def test_the_environment_can_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "regard.toml"
    file.write_text('models = ["a", "b"]\nreflection = false\n')
    settings = read(environment={"REGARD_CONFIG": str(file)})
    assert settings.models == (Path("a"), Path("b"))
    assert settings.reflection is False


def test_models_may_be_given_several_times_and_in_one_variable() -> None:
    assert read("--models", "a", "--models", "b").models == (Path("a"), Path("b"))
    assert read(environment={"REGARD_MODELS": "a:b"}).models == (Path("a"), Path("b"))


def test_limits_are_settings_like_any_other() -> None:
    assert read("--max-texts", "7").limits == Limits(max_texts=7)


@pytest.mark.parametrize(
    ("flags", "environment", "said"),
    [
        (["--device", "gpu"], {}, "--device: must be auto, cpu or cuda, got 'gpu'"),
        (["--workers", "many"], {}, "--workers: expected a whole number, got 'many'"),
        (["--workers", "0"], {}, "--workers: must be between 1 and 1024, got 0"),
        (["--grace", "nan"], {}, "--grace: must be between 0 and 86400, got nan"),
        (["--address", "localhost"], {}, "--address: expected HOST:PORT"),
        (["--max-texts", "0"], {}, "--max-texts: must be between 1"),
        ([], {"REGARD_LOG_TEXTS": "perhaps"}, "REGARD_LOG_TEXTS: expected true or false, got 'perhaps'"),
        ([], {"REGARD_QUEUE_LIMIT": ""}, "REGARD_QUEUE_LIMIT: expected a whole number"),
        ([], {"REGARD_QUEUE_LIMITS": "9"}, "REGARD_QUEUE_LIMITS: no such setting; did you mean REGARD_QUEUE_LIMIT?"),
        (["--config", "absent.toml"], {}, "--config: cannot read absent.toml"),
        (["--queue-limit", "256"], {}, "--queue-limit: must be at least --max-segments-per-call (512), got 256"),
        ([], {"REGARD_ROWS": "8"}, "REGARD_ROWS: must be at least --max-beam-size (16), got 8"),
        (
            ["--max-bytes-held", "9"],
            {},
            "--max-bytes-held: must be at least four times --max-message-bytes",
        ),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_it_was_given_under(
    flags: list[str], environment: dict[str, str], said: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        read(*flags, environment=environment)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("que-limit = 1", "que-limit: no such setting; did you mean queue-limit?"),
        ("rows = true", "rows: expected a whole number, got true"),
        ("rows = 2.5", "rows: expected a whole number, got 2.5"),
        ('log-format = "xml"', "log-format: must be text or json, got 'xml'"),
        ("rows = ", "is not TOML"),
        ("[limits]\nmax-texts = 3", "limits: no such setting; did you mean"),
    ],
)
def test_a_wrong_line_of_a_file_is_refused(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "regard.toml"
    file.write_text(content)
    with pytest.raises(SettingsError) as caught:
        read("--config", str(file))
    assert said in str(caught.value)
    assert str(file) in str(caught.value)


def test_variables_that_kubernetes_sets_for_a_service_are_left_alone() -> None:
    environment = {
        "REGARD_SERVICE_HOST": "10.0.0.1",
        "REGARD_SERVICE_PORT_GRPC": "50051",
        "REGARD_PORT": "tcp://10.0.0.1:50051",
        "REGARD_PORT_50051_TCP_ADDR": "10.0.0.1",
        "REGARD_METRICS_SERVICE_PORT": "9464",
    }
    assert read(environment=environment) == ServerSettings()


def test_variables_of_other_commands_of_the_project_are_left_alone() -> None:
    assert read(environment={"REGARD_DATA": "data"}) == ServerSettings()


def test_help_shows_every_flag_and_examples() -> None:
    parser = argparse.ArgumentParser(prog="regard serve")
    add_arguments(parser)
    text = parser.format_help()
    for flag in ("--models", "--device", "--queue-limit", "--log-texts", "--grace", "--config", "REGARD_QUEUE_LIMIT"):
        assert flag in text
    assert "regard serve --models /srv/models --address 0.0.0.0:50051" in text


def test_every_example_in_the_help_is_accepted(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser(prog="regard serve")
    add_arguments(parser)
    text = parser.format_help()
    examples = re.findall(r"  regard serve(.*)", text.partition("examples:")[2])
    assert len(examples) >= 4
    for example in examples:
        read(*shlex.split(example))
    (lines,) = re.findall(r"--config \((.*?)\)", " ".join(text.split()))
    file = tmp_path / "regard.toml"
    file.write_text(lines.replace("; ", "\n"))
    settings = read("--config", str(file))
    assert (settings.queue_limit, settings.models) == (2048, (Path("a"), Path("b")))


@pytest.mark.parametrize(
    ("address", "parts"),
    [("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:50051", ("::1", 50051)), ("localhost:65535", ("localhost", 65535))],
)
def test_an_address_is_a_host_and_a_port(address: str, parts: tuple[str, int]) -> None:
    assert split_address("address", address) == parts


@pytest.mark.parametrize("address", ["", ":1", "host:", "host:65536", "host:-1", "a b:1", "::1:5", "host:1/x"])
def test_anything_else_is_no_address(address: str) -> None:
    with pytest.raises(SettingsError):
        split_address("address", address)


def write(root: Path, path: str, content: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)


def test_a_quota_of_the_control_group_bounds_the_processors(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/pod/one\n")
    write(tmp_path, "sys/fs/cgroup/pod/one/cpu.max", "max 100000\n")
    write(tmp_path, "sys/fs/cgroup/pod/cpu.max", "100000 100000\n")
    assert available_processors(root=tmp_path) == 1


def test_a_quota_of_version_1_bounds_the_processors(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "4:memory:/\n3:cpu,cpuacct:/docker/x\n")
    write(tmp_path, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n")
    write(tmp_path, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert available_processors(root=tmp_path) == 1


def test_less_than_one_processor_still_gives_one(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/\n")
    write(tmp_path, "sys/fs/cgroup/cpu.max", "20000 100000\n")
    assert available_processors(root=tmp_path) == 1


def test_without_a_quota_the_affinity_mask_counts(tmp_path: Path) -> None:
    import os

    assert available_processors(root=tmp_path) == len(os.sched_getaffinity(0))
