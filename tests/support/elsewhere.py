"""Colab as far as it can be simulated: its versions, and a stand-in for its own package."""

import subprocess
import sys

# Colab's versions of the packages under widgets, and what these need unlike newer ones.
# torch stays as it is.
COLAB = {
    "ipywidgets": "7.7.1", "ipython": "7.34.0", "ipykernel": "6.17.1", "anywidget": "0.9.21",
    "traitlets": "5.7.1",
    "numpy": "2.1.3", "matplotlib": "3.10.0", "ipython-genutils": "0.2.0", "backcall": "0.2.0",
    "pickleshare": "0.7.5",
    "decorator": "4.4.2",
    "transformers": "5.18.0",  # the floor of pyproject.toml
}  # fmt: skip
STUB = """
import sys, types
colab = types.ModuleType("google.colab"); managers = []
colab.output = types.ModuleType("google.colab.output")
colab.output.enable_custom_widget_manager = lambda *_: managers.append(1)
sys.modules |= {"google.colab": colab, "google.colab.output": colab.output}
"""


def install(folder):
    """Install Colab's versions into a folder; return why it could not be done, or nothing."""
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--retries=1"]
    pins = [f"{name}=={version}" for name, version in COLAB.items()]
    done = subprocess.run(
        [*pip, f"--target={folder}", *pins], capture_output=True, text=True, check=False
    )
    return (done.stderr.strip() or "no reason given").splitlines()[-1] if done.returncode else ""
