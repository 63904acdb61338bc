"""A pretended accelerator, on which code that mixes devices fails as it does on a real one."""

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from filelock import FileLock
from torch.utils import cpp_extension

NAME = "pretended"
SOURCE = Path(__file__).parent / "second_device.cpp"
CACHE = Path(__file__).parents[3] / ".cache" / "second_device"


def compiler():
    """Return the path of a C++ compiler, or None."""
    return next(filter(None, map(shutil.which, (os.environ.get("CXX", "c++"), "g++"))), None)


def build():
    """Compile the backend against the installed PyTorch, once, and return the library."""
    text = SOURCE.read_text(encoding="utf-8") + torch.__version__
    library = CACHE / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.so"
    CACHE.mkdir(parents=True, exist_ok=True)
    with FileLock(CACHE / "lock"):
        if not library.exists():
            includes = [f"-I{folder}" for folder in cpp_extension.include_paths()]
            flags = ["-shared", "-fPIC", "-O0", "-w", "-std=c++20"]
            folder = Path(torch.__file__).parent / "lib"
            links = [f"-L{folder}", f"-Wl,-rpath,{folder}", "-ltorch", "-ltorch_cpu", "-lc10"]
            part = library.with_suffix(".part")
            command = [compiler(), *flags, *includes, SOURCE, "-o", part, *links]
            subprocess.run(command, check=True)
            part.replace(library)
    return library


def load():
    """Register the device under its name, and return the name."""
    if not hasattr(torch, NAME):
        torch.utils.rename_privateuse1_backend(NAME)
        torch._register_device_module(NAME, sys.modules[__name__])
        torch.ops.load_library(build())
    return NAME


@contextlib.contextmanager
def no_float64():
    """Let the device refuse float64, as Apple's GPUs do."""
    torch.ops.pretended_device.allow_float64(False)
    yield
    torch.ops.pretended_device.allow_float64(True)


# What PyTorch asks of the module of a device.
def is_available():
    return True


def device_count():
    return 1


def current_device():
    return 0


def get_amp_supported_dtype():
    return [torch.bfloat16]


def _is_in_bad_fork():
    return False


def manual_seed_all(seed):
    """Nothing: what is drawn on the device comes from the generator of the CPU."""
