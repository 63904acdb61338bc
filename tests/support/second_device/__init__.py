"""A simulated accelerator, on which code that mixes devices fails as on a real one."""

import contextlib
import hashlib
import os
import shutil
import subprocess
import types
from pathlib import Path

import torch
from filelock import FileLock

NAME = "pretended"
SOURCE = Path(__file__).parent / "second_device.cpp"
CACHE = Path(__file__).parents[3] / ".cache" / "second_device"


def compiler():
    """Return the path of a C++ compiler, or None; on Windows PyTorch needs another kind."""
    names = () if os.name == "nt" else (os.environ.get("CXX", "c++"), "g++")
    return next(filter(None, map(shutil.which, names)), None)


def build():
    """Compile the backend against the installed PyTorch, once, and return the library."""
    text = SOURCE.read_text(encoding="utf-8") + torch.__version__
    library = CACHE / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.so"
    CACHE.mkdir(parents=True, exist_ok=True)
    with FileLock(CACHE / "lock"):
        if not library.exists():
            # not from torch.utils.cpp_extension, whose setuptools fails where distutils is loaded
            headers = Path(torch.__file__).parent / "include"
            includes = [f"-I{headers}", f"-I{headers / 'torch/csrc/api/include'}"]
            flags = ["-shared", "-fPIC", "-O0", "-w", "-std=c++20"]
            folder = Path(torch.__file__).parent / "lib"
            links = [f"-L{folder}", f"-Wl,-rpath,{folder}", "-ltorch", "-ltorch_cpu", "-lc10"]
            part = library.with_suffix(".part")
            subprocess.run([compiler(), *flags, *includes, SOURCE, "-o", part, *links], check=True)
            part.replace(library)
    return library


def load():
    """Register the device under its name, and return the name."""
    if not hasattr(torch, NAME):
        torch.ops.load_library(build())
        torch.utils.rename_privateuse1_backend(NAME)
        module = types.ModuleType(f"torch.{NAME}")
        vars(module).update(
            is_available=lambda: True, device_count=lambda: 1, current_device=lambda: 0,
            get_amp_supported_dtype=lambda: [torch.bfloat16],
            _is_in_bad_fork=lambda: False,
            manual_seed_all=lambda seed: None,  # numbers come from the generator of the CPU
        )  # fmt: skip
        torch._register_device_module(NAME, module)
    return NAME


@contextlib.contextmanager
def no_float64():
    """Let the device refuse float64, as Apple's GPUs do."""
    torch.ops.pretended_device.allow_float64(False)
    try:
        yield
    finally:
        torch.ops.pretended_device.allow_float64(True)
