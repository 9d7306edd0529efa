"""The settings loader: precedence, origins, units, and one clear line for everything that is wrong."""

import enum
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ternmq_common.errors import StartupError
from ternmq_common.resources.setting import InvalidSetting, differing_settings, setting, settings_of
from ternmq_common.settings import OTHER_VARIABLES, SettingsError, load_settings
from ternmq_common.units import parse_duration, parse_size, spell_duration


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    number: int = 1
    ratio: float = 0.5
    switch: bool = False
    name: str = "plain"
    folder: Path = Path("here")
    colour: Colour = Colour.RED
    limit: int | None = None
    buffer_bytes: int = 1024
    poll_ms: int = setting(20_000, flag="--poll")
    pause_s: float = 1.0
    patience_ms: int = setting(50, within=(1, 1000), expert=True)

    def __post_init__(self) -> None:
        SETTINGS["patience_ms"].check_range(self.patience_ms)
        if self.number < 0:
            raise InvalidSetting("number", "0 or more is needed")


SETTINGS = settings_of(Sample)


def from_variables(**texts: str) -> Sample:
    return load_settings(
        Sample, file=None, environ={SETTINGS[k].variable: v for k, v in texts.items()}, flags={}
    ).settings


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "settings.toml"
    file.write_text(text)
    return file


def refusal(**texts: str) -> str:
    with pytest.raises(StartupError) as caught:
        from_variables(**texts)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_without_anything_given_all_is_default() -> None:
    loaded = load_settings(Sample, file=None, environ={}, flags={"number": None})
    assert loaded.settings == Sample()
    assert set(loaded.origins.values()) == {"default"}


@given(in_file=st.booleans(), in_environment=st.booleans(), in_flags=st.booleans())
def test_the_later_source_wins_and_is_named(
    tmp_path_factory: pytest.TempPathFactory, in_file: bool, in_environment: bool, in_flags: bool
) -> None:
    file = written(tmp_path_factory.mktemp("settings"), "number = 2\n") if in_file else None
    loaded = load_settings(
        Sample,
        file=file,
        environ={"TERNMQ_NUMBER": "3"} if in_environment else {},
        flags={"number": 4} if in_flags else {},
    )
    expected = [(1, "default")]
    expected += [(2, f"file {file}")] if in_file else []
    expected += [(3, "TERNMQ_NUMBER")] if in_environment else []
    expected += [(4, "--number")] if in_flags else []
    assert (loaded.settings.number, loaded.origins["number"]) == expected[-1]


def test_a_file_may_use_every_type(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        'number = 7\nratio = 2\nswitch = true\nname = "n"\nfolder = "/a"\ncolour = "blue"\nlimit = 3\n'
        'buffer_bytes = "2KiB"\npoll_ms = "5s"\npause_s = "500ms"\n',
    )
    assert load_settings(Sample, file=file, environ={}, flags={}).settings == Sample(
        number=7,
        ratio=2.0,
        switch=True,
        name="n",
        folder=Path("/a"),
        colour=Colour.BLUE,
        limit=3,
        buffer_bytes=2048,
        poll_ms=5000,
        pause_s=0.5,
    )


def test_variables_are_converted_to_the_fields_types() -> None:
    assert from_variables(switch="YES", colour="BLUE", limit="none", folder="/x/y") == Sample(
        switch=True, colour=Colour.BLUE, folder=Path("/x/y")
    )


def test_a_flag_may_have_a_name_of_its_own() -> None:
    assert load_settings(Sample, file=None, environ={}, flags={"poll_ms": "3s"}).origins["poll_ms"] == "--poll"


def test_an_unknown_variable_names_the_nearest() -> None:
    with pytest.raises(SettingsError, match=r"unknown variable TERNMQ_NUMBR; did you mean 'TERNMQ_NUMBER'\?"):
        load_settings(Sample, file=None, environ={"TERNMQ_NUMBR": "1"}, flags={})


def test_variables_of_the_command_and_of_others_are_no_settings() -> None:
    environ = dict.fromkeys(OTHER_VARIABLES, "x") | {"HOME": "/", "_TERNMQ_COMPLETE": "bash_source"}
    assert load_settings(Sample, file=None, environ=environ, flags={}).settings == Sample()


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("number", "many", "a number is needed"),
        ("number", "1.5", "a whole number is needed"),
        ("switch", "perhaps", "true or false is needed"),
        ("colour", "green", "one of red, blue is needed"),
        ("buffer_bytes", "1 parsec", "a size like 64MiB"),
        ("poll_ms", "soon", "a duration like 500ms"),
        ("poll_ms", "0.5ms", "a whole number is needed"),
        ("folder", "", "a path is needed"),
        ("limit", "some", "a number is needed"),
    ],
)
def test_a_wrong_value_is_one_line_with_name_value_origin_and_what_is_allowed(
    name: str, text: str, allowed: str
) -> None:
    message = refusal(**{name: text})
    assert message.startswith(f"{name} = {text!r} (from {SETTINGS[name].variable}): ")
    assert allowed in message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        *((line, "needed") for line in ("number = true", 'number = "x"', "name = 3", "switch = 3", "folder = 3")),
        ("number = []", "needed"),
        ('foldr = "x"', r"unknown setting 'foldr' in .*settings.toml; did you mean 'folder'\?"),
        ("zzzzzzzz = 1", "known are buffer_bytes, colour, expert.patience_ms, folder"),
        ("number = = 2", "is not TOML: .*line 1"),
        (None, "can't read the settings file .*settings.toml: No such file"),
    ],
)
def test_a_file_that_is_wrong_or_missing_is_one_line_that_says_why(
    tmp_path: Path, text: str | None, problem: str
) -> None:
    file = tmp_path / "settings.toml" if text is None else written(tmp_path, text)
    with pytest.raises(SettingsError, match=problem):
        load_settings(Sample, file=file, environ={}, flags={})


def test_what_the_class_refuses_is_told_with_its_origin() -> None:
    assert refusal(number="-1") == "number = -1 (from TERNMQ_NUMBER): 0 or more is needed"


@given(st.integers(0, 2**50))
def test_a_rendered_size_reads_back(size: int) -> None:
    assert parse_size(SETTINGS["buffer_bytes"].render(size)) == size


def test_a_duration_is_spelled_to_the_second() -> None:
    day, hour, minute = 86_400_000, 3_600_000, 60_000
    assert spell_duration(39 * day + 4 * hour + 12 * minute + 5_999) == "39d4h12m5s"
    assert (spell_duration(3 * day), spell_duration(999), spell_duration(minute + 1)) == ("3d", "0s", "1m")


@given(st.integers(0, 10**12))
def test_a_rendered_duration_reads_back(duration: int) -> None:
    assert parse_duration(SETTINGS["poll_ms"].render(duration), unit="ms") == duration
    assert parse_duration(SETTINGS["pause_s"].render(duration), unit="s") == duration


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("1h30m", 5_400_000), ("500ms", 500), ("3d", 259_200_000), ("1.5s", 1500), ("250", 250), ("1 h", 3_600_000)],
)
def test_durations(text: str, expected_ms: int) -> None:
    assert parse_duration(text, unit="ms") == expected_ms


@pytest.mark.parametrize("text", ["", "h", "-1s", "1x", "1h-30m", "1h x", "\u0661s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a duration like"):
        parse_duration(text, unit="ms")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("64MiB", 64 * 2**20), ("1gib", 2**30), ("10MB", 10**7), ("1.5 KiB", 1536), ("0", 0), ("7B", 7)],
)
def test_sizes(text: str, expected: int) -> None:
    assert parse_size(text) == expected


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1 2", "1.5", "1XiB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="needed"):
        parse_size(text)


def test_what_differs_from_the_defaults_is_told_as_it_would_be_written() -> None:
    assert differing_settings(Sample()) == {}
    settings = Sample(poll_ms=90_000, name="http://u:secret@h", limit=3, switch=False, patience_ms=70)
    assert differing_settings(settings) == {
        "poll_ms": "90s",
        "name": "http://u:***@h",
        "limit": "3",
        "expert.patience_ms": "70ms",
    }


@pytest.mark.parametrize("text", ["[expert]\npatience_ms = 70", "expert.patience_ms = '70ms'"])
def test_expert_settings_have_a_table_and_variables_of_their_own(tmp_path: Path, text: str) -> None:
    in_file = load_settings(Sample, file=written(tmp_path, text), environ={}, flags={})
    assert (in_file.settings.patience_ms, in_file.former) == (70, ())
    in_variable = load_settings(Sample, file=None, environ={"TERNMQ_EXPERT_PATIENCE_MS": "70ms"}, flags={})
    assert (in_variable.settings.patience_ms, in_variable.former) == (70, ())


def test_former_names_of_expert_settings_are_read_and_told(tmp_path: Path) -> None:
    file = written(tmp_path, "patience_ms = 70")
    loaded = load_settings(Sample, file=file, environ={}, flags={})
    assert loaded.settings.patience_ms == 70
    assert loaded.former == (("patience_ms", "expert.patience_ms"),)
    loaded = load_settings(Sample, file=file, environ={"TERNMQ_PATIENCE_MS": "80ms"}, flags={})
    assert (loaded.settings.patience_ms, loaded.origins["patience_ms"]) == (80, "TERNMQ_PATIENCE_MS")
    assert loaded.former[1] == ("TERNMQ_PATIENCE_MS", "TERNMQ_EXPERT_PATIENCE_MS")


@pytest.mark.parametrize("text", ["patience_ms = 1\nexpert.patience_ms = 2", "expert.patience_ms = 1\npatience_ms = 2"])
def test_a_setting_has_one_of_its_two_names(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match=r"^expert\.patience_ms is given by its former name too \(from file "):
        load_settings(Sample, file=written(tmp_path, text), environ={}, flags={})
    both = {"TERNMQ_PATIENCE_MS": "1", "TERNMQ_EXPERT_PATIENCE_MS": "2"}
    with pytest.raises(SettingsError, match=r"^TERNMQ_EXPERT_PATIENCE_MS is given by its former name too"):
        load_settings(Sample, file=None, environ=both, flags={})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("expert.patienc_ms = 1", r"unknown setting 'expert.patienc_ms' in .*; did you mean 'expert.patience_ms'\?"),
        ("expert = 3", "expert = 3 .*: a table is needed"),
        ("expert.number = 3", "unknown setting 'expert.number'"),
        ("expert.patience_ms = 0", r"expert.patience_ms = 0 .*: 1ms to 1s is allowed"),
    ],
)
def test_mistakes_of_the_expert_table(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        load_settings(Sample, file=written(tmp_path, text), environ={}, flags={})


LINKS = {
    "TERNMQ_PORT": "tcp://10.0.0.1:8081",
    "TERNMQ_SERVICE_HOST": "10.0.0.1",
    "TERNMQ_SERVICE_PORT": "8081",
    "TERNMQ_SERVICE_PORT_GRPC": "8081",
    "TERNMQ_PORT_8081_TCP": "tcp://10.0.0.1:8081",
    "TERNMQ_PORT_8081_TCP_ADDR": "10.0.0.1",
    "TERNMQ_PORT_8081_TCP_PORT": "8081",
    "TERNMQ_PORT_8081_TCP_PROTO": "tcp",
    "TERNMQ_SERVICE_SERVICE_PORT": "8081",
    "TERNMQ_SERVICE_PORT_8081_TCP": "tcp://10.0.0.2:8081",
    "TERNMQ_PROXY_PORT": "tcp://[fd00::1]:8081",
    "TERNMQ_PROXY_0_SERVICE_HOST": "fd00::1",
    "TERNMQ_BROKER_PORT_53_UDP": "udp://fd00::1:53",
}


def test_service_links_are_no_settings_and_are_told() -> None:
    loaded = load_settings(Sample, file=None, environ={**LINKS, "TERNMQ_NUMBER": "3"}, flags={})
    assert loaded.settings == Sample(number=3)
    assert loaded.ignored == tuple(sorted(LINKS))
    assert load_settings(Sample, file=None, environ={"TERNMQ_NUMBER": "3"}, flags={}).ignored == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TERNMQ_PORT", "8081"),
        ("TERNMQ_PORT", "tcp://10.0.0.1"),
        ("TERNMQ_PORT", "http://10.0.0.1:8081"),
        ("TERNMQ_PORT", ""),
        ("TERNMQ_GRPC_PORT", "8081"),
        ("TERNMQ_SERVICE_HOST", "localhost"),
        ("TERNMQ_SERVICE_PORT", "http"),
        ("TERNMQ_SERVICE_NAME", "10.0.0.1"),
        ("TERNMQ_PORT_8081_TCP_PROTO", "http"),
        ("TERNMQ_PORT_8081_TCP_ADDR", "here"),
        ("TERNMQ_PORT_8081_HTTP", "tcp://10.0.0.1:8081"),
        ("TERNMQ_NUMBR", "tcp://10.0.0.1:8081"),
    ],
)
def test_what_only_begins_like_a_service_link_is_an_unknown_variable(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"unknown variable {name}"):
        load_settings(Sample, file=None, environ={**LINKS, name: value}, flags={})


def test_variables_of_other_processes_are_told_and_those_of_nobody_are_errors(tmp_path: Path) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Another:
        number: int = 1
        port: str = ""
        elsewhere: str = ""

    known = settings_of(Another).values()
    given = {"TERNMQ_NUMBER": "3", "TERNMQ_ELSEWHERE": "x", **LINKS}
    loaded = load_settings(Sample, file=None, environ=given, flags={}, known_elsewhere=known)
    assert loaded.settings.number == 3
    assert loaded.others == ("TERNMQ_ELSEWHERE", "TERNMQ_PORT"), "a setting is one whatever its value looks like"
    assert "TERNMQ_PORT" not in loaded.ignored
    with pytest.raises(SettingsError, match="unknown variable TERNMQ_ELSEWHER"):
        load_settings(Sample, file=None, environ={"TERNMQ_ELSEWHER": "x"}, flags={}, known_elsewhere=known)
    file = tmp_path / "ternmq.toml"
    file.write_text("elsewhere = 'x'\n")
    with pytest.raises(SettingsError, match="unknown setting 'elsewhere'"):
        load_settings(Sample, file=file, environ={}, flags={}, known_elsewhere=known)


def test_a_setting_is_one_whatever_its_value_looks_like() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Ported:
        port: str = ""

    assert load_settings(Ported, file=None, environ=LINKS, flags={}).settings.port == "tcp://10.0.0.1:8081"
