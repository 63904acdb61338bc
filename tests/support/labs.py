"""All labs: those that several lessons use, and those that lie with their lesson."""

import lessons

from mha_course.widgets.labs.lab import Lab

lessons.modules_named("lab")
# A Panel is no lab of its own: it draws what it is given.
LABS = {lab.__name__: lab for lab in Lab.__subclasses__() if lab.__name__ != "Panel"}
