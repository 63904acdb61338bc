"""The labs: one idea each, a few controls, one picture, and a sentence that reads it.

Every lab that a file of this folder defines is found by itself: to add a lab is to add a file.
"""

import pkgutil
from importlib import import_module

from mha_course.widgets.labs.lab import Lab

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)

LABS: dict[str, type[Lab]] = {lab.__name__: lab for lab in Lab.__subclasses__()}
globals().update(LABS)
__all__ = ["LABS", "Lab"]
__all__ += list(LABS)
