"""``lingua demo --speech`` as people run it: real speech, clear words when it cannot be, and nothing left behind."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request
import uuid
import wave
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scheduler import ROOT, binary
from sentences import word_errors, words

HOME = os.environ.get("LINGUA_SPEECH_HOME", str(ROOT / "target" / "speech-node"))

# What the scripts of a speech node are replaced by, where a test is not about speech.
FINE = "echo '== ready'\n"


class Demo:
    """A running demo; every process below it has its mark."""

    def __init__(self, files: Path, *arguments: str, program: Path | None = None, **options: str) -> None:
        self.mark = f"demo-{uuid.uuid4().hex}"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LINGUA_")}
        environment |= {"LINGUA_SPEECH_HOME": HOME, "LINGUA_MARK": self.mark, "TMPDIR": str(files)}
        environment["XDG_CACHE_HOME"] = str(files.parent / "cache")
        environment |= {name: value for name, value in options.items() if name != "cwd"}
        self.files = files
        self.process = subprocess.Popen(
            [str(program or binary()), "demo", "--speech", "--listen", "127.0.0.1:0", *arguments],
            env=environment,
            cwd=options.get("cwd", str(ROOT)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # As a shell does it: signals of the tests' own terminal are not for it.
            start_new_session=True,
        )
        self.said: list[str] = []

    def until(self, start: str) -> str:
        """Reads up to a line that starts so."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.rstrip())
            if self.said[-1].startswith(start):
                return self.said[-1]
        raise AssertionError(f"it never said {start!r}: {self.said}")

    def ended(self, number: int | None = None) -> tuple[int, str]:
        """Its exit code and all that it said; after that signal, if there is one."""
        if number is not None:
            self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=60)
        self.said += rest.splitlines()
        return self.process.returncode, "\n".join(self.said)

    def processes(self) -> list[tuple[int, str]]:
        """Processes with its mark, and how they were called."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and self.mark.encode() in (entry / "environ").read_bytes():
                    called = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    found.append((int(entry.name), called))
            except OSError:
                pass
        return [(pid, called) for pid, called in found if called]

    def left(self) -> list[str]:
        return [called for _, called in self.processes()]

    def grows(self, word: str, count: int = 1) -> None:
        """Waits for so many processes with this word."""
        end = time.monotonic() + 20
        while len([called for called in self.left() if word in called]) < count:
            assert time.monotonic() < end, self.left()
            time.sleep(0.05)

    def gone(self, seconds: float = 10) -> bool:
        """Whether nothing of it is left, or will be in a moment."""
        end = time.monotonic() + seconds
        while self.left() and time.monotonic() < end:
            time.sleep(0.05)
        return not self.left()


Start = Callable[..., Demo]


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Start]:
    started: list[Demo] = []

    def start(*arguments: str, program: Path | None = None, **options: str) -> Demo:
        files = tmp_path / f"files-{len(started)}"
        files.mkdir()
        started.append(Demo(files, *arguments, program=program, **options))
        return started[-1]

    yield start
    for running in started:
        running.process.kill()
        running.process.communicate()


@pytest.fixture
def fake(tmp_path: Path) -> Callable[[str, str], str]:
    """A directory with these scripts as a speech node."""

    def fake(setup: str, run: str) -> str:
        place = tmp_path / "fake"
        place.mkdir()
        for name, script in (("setup.sh", setup), ("run.sh", run)):
            (place / name).write_text(f"#!/usr/bin/env bash\n{script}")
            (place / name).chmod(0o755)
        return str(place)

    return fake


def test_sentences_are_spoken_and_told_and_ctrl_c_ends_everything(demo: Start) -> None:
    running = demo()
    running.until("It runs until Ctrl-C")
    said = "\n".join(running.said)
    blocks = re.findall(
        r"^\d  said        (.+)\n   recognised  (.+)\n   translated  (.+)\n"
        r"   spoken      ([\d.]+) s .+, saved as (.+)\n   took        (\d+) ms (.+)$",
        said,
        re.MULTILINE,
    )
    assert len(blocks) == 4, said
    errors = sum(word_errors(spoken, recognised) for spoken, recognised, *_ in blocks)
    assert errors / sum(len(words(block[0])) for block in blocks) < 0.3, said
    translated = words(" ".join(block[2] for block in blocks))
    for word in ("café", "biblioteca", "hospital", "gracias"):
        assert word in translated, said
    for *_, seconds, file, took, stages in blocks:
        assert float(seconds) > 0.5 and 0 < int(took) < 30_000, said
        with wave.open(file) as saved:
            assert (saved.getnchannels(), saved.getsampwidth(), saved.getframerate()) == (1, 2, 16_000), file
            assert abs(saved.getnframes() / 16_000 - float(seconds)) < 0.1, file
        assert "recognition" in stages and "translation" in stages and "speech" in stages, said
    talk = re.search(r"Talk: (http://127\.0\.0\.1:\d+)/talk", said)
    assert talk is not None, said
    with urllib.request.urlopen(talk.group(1) + "/talk") as answer:  # noqa: S310
        assert answer.status == 200 and b"<html" in answer.read().lower()
    assert any("speech_node" in command for command in running.left())

    code, said = running.ended(signal.SIGINT)
    assert code == 0, said
    assert "The speech node has ended in order" in said and said.endswith("Everything has stopped."), said
    assert running.left() == []
    assert list(running.files.iterdir()) == [], "it leaves no files"


def test_a_node_that_dies_ends_the_demo_with_its_last_words(demo: Start) -> None:
    running = demo("--seconds", "120")
    running.until("1  said")
    (pid,) = [pid for pid, called in running.processes() if "-m speech_node" in called]
    os.kill(pid, signal.SIGKILL)
    code, said = running.ended()
    assert code == 1 and "the speech node ended (signal: 9" in said, said
    assert "the engines work" in said, "the last lines of its log"
    log = re.search(r"all of it: (\S+)", said)
    assert log is not None and Path(log.group(1)).is_file()
    assert running.gone()


def test_ctrl_c_while_it_is_prepared_ends_the_preparation(demo: Start, fake: Callable[[str, str], str]) -> None:
    place = fake("echo '== installing something large'\nsleep 1000 & sleep 1000\n", FINE)
    running = demo("--speech-node", place)
    running.until("… installing something large")
    running.grows("sleep 1000", 2)
    code, said = running.ended(signal.SIGINT)
    assert code == 1 and "interrupted during the start" in said, said
    assert running.gone(), running.left()
    assert list(running.files.iterdir()) == []


def test_a_preparation_that_does_not_listen_is_killed(demo: Start, fake: Callable[[str, str], str]) -> None:
    place = fake("trap '' TERM INT\necho '== stubborn'\nwhile true; do sleep 1; done\n", FINE)
    running = demo("--speech-node", place)
    running.until("… stubborn")
    code, _ = running.ended(signal.SIGTERM)
    assert code == 1 and running.gone(), running.left()


def test_a_preparation_that_fails_is_told_with_its_last_lines(demo: Start, fake: Callable[[str, str], str]) -> None:
    place = fake(
        "echo '== fetching'\nfor i in $(seq 40); do echo line $i; done\necho no such package >&2\nexit 3\n", FINE
    )
    code, said = demo("--speech-node", place).ended()
    assert code == 1 and "could not be prepared (exit status: 3, while fetching)" in said, said
    assert "| no such package" in said and "| line 40" in said, said
    assert "| line 20" not in said, "only the last lines"
    log = re.search(r"all of it: (\S+)", said)
    assert log is not None
    written = Path(log.group(1)).read_text()
    assert "no such package" in written and "line 1\n" in written


def test_missing_packages_are_named_and_not_installed(demo: Start, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("bash", "espeak-ng", "env", "dirname", "sha256sum", "cat", "setpriv"):
        found = shutil.which(tool)
        assert found is not None, tool
        (tools / tool).symlink_to(found)
    code, said = demo(PATH=str(tools)).ended()
    assert code == 1 and "sudo apt-get install python3 python3-venv" in said, said
    code, said = demo(PATH="/nowhere").ended()
    assert code == 1 and "espeak-ng is not installed" in said and "apt-get install" in said, said


def test_a_node_that_cannot_start_is_told(demo: Start, fake: Callable[[str, str], str]) -> None:
    running = demo("--speech-node", fake(FINE, "echo the engine is broken >&2\nexit 7\n"))
    code, said = running.ended()
    assert code == 1 and "the speech node ended (exit status: 7)" in said and "| the engine is broken" in said, said


def test_a_demo_that_is_killed_leaves_no_node(demo: Start, fake: Callable[[str, str], str]) -> None:
    running = demo("--speech-node", fake(FINE, "exec sleep 1000\n"))
    running.until("… the speech node loads its engines")
    running.grows("sleep 1000")
    running.process.kill()
    running.process.wait()
    assert running.gone(), running.left()


def test_outside_of_the_sources_it_says_what_it_needs(demo: Start, tmp_path: Path) -> None:
    program = tmp_path / "lingua"
    try:
        os.link(binary(), program)
    except OSError:
        shutil.copy(binary(), program)
    code, said = demo(program=program, cwd="/").ended()
    assert code == 1 and "--speech-node" in said and "clients/python/examples/speech_node" in said, said
    code, said = demo("--speech-node", "/").ended()
    assert code == 2 and "is not a speech node" in said, said
