"""Lesson 19, Bug hunt: its questions; the hunt itself is ``hunt``."""

from __future__ import annotations

from mha_course.exercises.spec import Lesson, question

QUESTIONS = {
    "lowest-loss": question(
        "Cases 1 and 7 end far below the loss of the right one, with as many parameters and the "
        "same batches. Held-out sentences, read in the same way, show the same. What is the "
        "likeliest reason?",
        "their attention is better → The right one can already look at everything that came "
        "before. What more is there to look at?",
        "✔ they see some of what they should guess → The loss is below what the words so far "
        "allow, even on held-out text. Only the later words could explain that.",
        "they have memorised their sentences → Then they would be worse on held-out sentences.",
    ),
    "padding-unseen": question(
        "A language model is trained as in lesson 15: padding at the end, a causal mask, no "
        "padding mask. Its attention reads padding masks the wrong way round. What does the loss "
        "in training show of it?",
        "✔ nothing at all → No padding mask is ever passed in training, so the wrong line never "
        "matters. It waits for the first batch that is padded in front.",
        "it ends somewhat higher → The wrong line matters only where there is a padding mask, and "
        "in training there is none.",
        "it becomes NaN → That takes a row that sees nothing. Without a padding mask each token "
        "sees itself.",
    ),
    "own-order": question(
        "Case 3 is found: its query heads read the shared heads in another order than lesson 11 "
        "says. A model is trained with this order from the start, and used with it. What does "
        "that cost?",
        "a little on every word → Which shared head a query head reads is settled before "
        "training, and training does the rest. Neither order is better.",
        "✔ nothing → Each query head learns to work with the shared head that it gets. It costs "
        "something only with parameters that were trained in the other order.",
        "it cannot learn → Every query head has a shared head to learn with, only a different one.",
        also=("0", "no cost", "none"),
    ),
}

LESSON = Lesson(19, "Bug hunt", [], QUESTIONS)
