"""The package on an accelerator, in a process that registers it before any backward()."""

import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).with_name("device_cases.py")


@pytest.mark.parametrize(
    "marks",
    [
        pytest.param("device and not weekly", marks=pytest.mark.device),
        pytest.param("device and weekly", marks=pytest.mark.weekly),
    ],
)
def test_the_package_on_an_accelerator(marks):
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-m", marks, CASES]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode == pytest.ExitCode.NO_TESTS_COLLECTED:
        pytest.skip("the pretended device needs a C++ compiler")
    assert run.returncode == pytest.ExitCode.OK, run.stdout[-8000:] + run.stderr[-2000:]
