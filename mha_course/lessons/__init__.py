"""One folder for each lesson; what several lessons use is in the core, next to this folder."""

# This loads the exercises of all lessons, so that whichever of lessons and exercises is imported
# first finds the other.
import mha_course.exercises  # noqa: F401
