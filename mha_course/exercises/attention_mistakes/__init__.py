"""How mistakes in the steps of attention are made, in any exercise; mistakes.py has their words.

Each is the right answer with one step replaced. If two give the same result, the first one is
named. Mistakes in a whole function, or in a step that only one lesson has, are registered in that
lesson.
"""

from mha_course.exercises.attention_mistakes.heads import HEADS
from mha_course.exercises.attention_mistakes.masking import MASKS
from mha_course.exercises.attention_mistakes.projection import PROJECTION
from mha_course.exercises.attention_mistakes.results import BY_STAGE, OTHERS, OUTPUT
from mha_course.exercises.attention_mistakes.weights import SCORES, SOFTMAX

STEP_MISTAKES = (*PROJECTION, *HEADS, *SCORES, *SOFTMAX, *MASKS, *OUTPUT, *BY_STAGE, *OTHERS)
