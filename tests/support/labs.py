"""All labs: those that several lessons use, and those in a lesson's folder."""

import lessons

from mha_course.widgets.labs.lab import Lab

lessons.modules_named("lab")
# A Panel is not a lab itself: it draws what it is given.
LABS = {lab.__name__: lab for lab in Lab.__subclasses__() if lab.__name__ != "Panel"}
