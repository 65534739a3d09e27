"""What this machine has: processors, memory, GPUs, and the engines that nodes are often made of."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import Any

NVIDIA_SMI_SECONDS = 10.0
"""The first call after a start may have to load the driver."""

PROGRAMS = ("espeak-ng", "apertium", "hunspell", "ffmpeg", "piper", "whisper-cli", "ollama")
"""Engines that are programs."""

PACKAGES = (
    "moonshine-voice",
    "faster-whisper",
    "openai-whisper",
    "vosk",
    "ctranslate2",
    "transformers",
    "argostranslate",
    "onnxruntime",
    "onnxruntime-gpu",
    "torch",
    "piper-tts",
    "TTS",
    "av",
)
"""Engines that are Python packages."""


@dataclass(frozen=True)
class Gpu:
    """One GPU."""

    name: str
    memory_gb: float
    driver: str = ""


@dataclass(frozen=True)
class Machine:
    """What was found."""

    system: str
    cpu_cores: int
    memory_gb: float | None
    gpus: list[Gpu] = field(default_factory=list)
    no_gpu: str = ""
    """Why no GPU is listed."""
    engines: list[str] = field(default_factory=list)

    def hardware(self) -> dict[str, Any]:
        """As ``hardware`` of a registration."""
        gpus = [{"name": gpu.name, "memory_gb": gpu.memory_gb} for gpu in self.gpus]
        found: dict[str, Any] = {"cpu_cores": self.cpu_cores, "gpus": gpus}
        if self.memory_gb is not None:
            found["memory_gb"] = self.memory_gb
        return found


def look() -> Machine:
    """Looks at this machine. Engines are found by their names and not loaded."""
    gpus, no_gpu = find_gpus()
    return Machine(
        system=f"{platform.system()} {platform.release()} {platform.machine()}, Python {platform.python_version()}",
        cpu_cores=os.cpu_count() or 1,
        memory_gb=memory_gb(),
        gpus=gpus,
        no_gpu=no_gpu,
        engines=find_engines(),
    )


def hardware() -> dict[str, Any]:
    """For ``Node(hardware=…)``: processors, memory and GPUs, which the scheduler shows to operators."""
    return look().hardware()


def find_gpus() -> tuple[list[Gpu], str]:
    """The GPUs by ``nvidia-smi``, or why there are none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return [], "nvidia-smi is not installed"
    query = [program, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits"]
    try:
        asked = subprocess.run(query, capture_output=True, text=True, timeout=NVIDIA_SMI_SECONDS, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        return [], f"nvidia-smi does not answer ({type(error).__name__})"
    if asked.returncode != 0:
        said = (asked.stdout + asked.stderr).strip().splitlines()
        return [], f"nvidia-smi: {said[0][:200] if said else f'exit code {asked.returncode}'}"
    gpus = parse_gpus(asked.stdout)
    return gpus, "" if gpus else "nvidia-smi lists none"


def parse_gpus(listed: str) -> list[Gpu]:
    """The lines of ``nvidia-smi``: name, memory in MiB, driver. A name may hold a comma."""
    gpus = []
    for line in listed.splitlines():
        parts = [part.strip() for part in line.rsplit(",", 2)]
        if len(parts) != 3 or not parts[0]:
            continue
        name, memory, driver = parts
        # Some GPUs share the machine's memory and say "[N/A]".
        gpus.append(Gpu(name, round(int(memory) / 1024, 1) if memory.isdigit() else 0.0, driver))
    return gpus


def memory_gb() -> float | None:
    """The memory of the machine, where the system tells it."""
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, OSError, ValueError):
        return None


def find_engines() -> list[str]:
    """Programs on the path, and installed packages with their versions."""
    found = [name for name in PROGRAMS if shutil.which(name) is not None]
    for name in PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
