"""All labs: those that several lessons use, and those in a lesson's folder."""

import lessons

from mha_course.widgets.labs.lab import Lab, PageLab

lessons.modules_named("lab")
# A Panel is not a lab itself: it draws what it is given.
EVERY = (*Lab.__subclasses__(), *PageLab.__subclasses__())
LABS = {lab.__name__: lab for lab in EVERY if lab.__name__ not in ("Panel", "PageLab")}
