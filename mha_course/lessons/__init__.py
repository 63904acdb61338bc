"""One folder for each lesson; what several lessons use is in the core, next to this folder."""

# Load the exercises of all lessons, so that lessons and exercises can be imported in either order.
import mha_course.exercises  # noqa: F401
