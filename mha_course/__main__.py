"""``python3 -m mha_course``: find a suitable Python, then let ``launch`` do the work.

It uses only old syntax, so that old Pythons also print a clear sentence.
"""

import os
import shutil
import subprocess
import sys

OLDEST, TOO_NEW = (3, 11), (3, 15)
PREFERRED = ("3.13", "3.12", "3.11", "3.14")


def find_python():  # type: () -> list[str]
    """Return the command of a suitable installed Python, as a list; empty if there is none."""
    if not hasattr(shutil, "which"):  # Python 2
        return []
    check = "import sys; sys.exit(not %r <= sys.version_info[:2] < %r)" % (OLDEST, TOO_NEW)
    for version in PREFERRED:
        name, option = ("py", ["-" + version]) if os.name == "nt" else ("python" + version, [])
        command = [shutil.which(name) or ""] + option
        if command[0] and subprocess.call(command + ["-c", check], stderr=subprocess.DEVNULL) == 0:
            return command
    return []


def main():  # type: () -> int
    """Run the command here or in a suitable Python, or say what is missing."""
    if OLDEST <= sys.version_info[:2] < TOO_NEW:
        from mha_course.cli import launch

        return launch.main(sys.argv[1:])
    command = find_python()
    if command:
        return subprocess.call(command + ["-m", "mha_course"] + sys.argv[1:])
    sys.stderr.write(
        "mha_course: this Python is too %s. expected Python 3.11 to 3.14, got %s, fix: install "
        "Python 3.13 from https://www.python.org/downloads/ and run the same command again\n"
        % ("old" if sys.version_info[:2] < OLDEST else "new", "%d.%d" % sys.version_info[:2])
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
