"""All labs: those that several lessons use, and those that lie with their lesson."""

import pkgutil
from importlib import import_module

from mha_course import lessons
from mha_course.widgets.labs import Lab

for _folder in pkgutil.iter_modules(lessons.__path__):
    if any(
        module.name == "lab"
        for module in pkgutil.iter_modules([f"{lessons.__path__[0]}/{_folder.name}"])
    ):
        import_module(f"{lessons.__name__}.{_folder.name}.lab")

LABS = {
    lab.__name__: lab for lab in Lab.__subclasses__() if lab.__name__ != "Panel"
}  # which draws what it is given
