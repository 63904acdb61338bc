"""One folder a lesson, with all that serves it alone; what several lessons use lies beside this folder."""

import mha_course.exercises  # noqa: F401  (loads the exercises of all lessons: whichever is imported first finds them)
