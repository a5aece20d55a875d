"""The machine that a table was measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def processor() -> str:
    """Model and number of cores that this process may use."""
    model = platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0))
    return f"{model}, {cores} core{'s' if cores > 1 else ''}"


def filesystem(folder: Path) -> str:
    """Type of the filesystem of a folder, such as ``"ext4"``; ``"unknown"`` where it is hidden."""
    path = os.path.realpath(folder)
    found, found_length = "unknown", -1
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        before, _, after = line.partition(" - ")
        point = before.split()[4].encode().decode("unicode_escape")
        is_above = path == point or path.startswith(point.rstrip("/") + "/")
        # The last of two mounts on one point hides the other.
        if is_above and len(point) >= found_length:
            found, found_length = after.split()[0], len(point)
    return found


def description(folder: Path) -> dict[str, str]:
    """What a reader needs to know of the machine, by name."""
    return {
        "processor": processor(),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "filesystem": filesystem(folder),
    }
