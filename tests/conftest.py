"""Options and fixtures that all tests share."""

import matplotlib as mpl
import pytest
import torch

mpl.use("agg")
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="also run what needs more than requirements.txt")


@pytest.fixture(params=DEVICES)
def device(request):
    """Each device of this machine; numbers are drawn on the CPU and moved."""
    return request.param


@pytest.fixture
def draw():
    """Draw normal numbers of a shape, the same in every run: ``draw(2, 5, seed=1)``."""

    def numbers(*shape, seed=0, dtype=torch.float64, device="cpu"):
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(device=device, dtype=dtype)

    return numbers


@pytest.fixture(autouse=True)
def nobodys_progress(request, monkeypatch):
    """What tests answer is nobody's progress; notebooks that run show their own, which is none."""
    if "notebooks" not in request.module.__name__ and "elsewhere" not in request.module.__name__:
        monkeypatch.setenv("MHA_COURSE_PROGRESS", "off")
