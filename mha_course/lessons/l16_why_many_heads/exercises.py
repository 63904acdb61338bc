"""Lesson 16, Why many heads."""

from __future__ import annotations

from mha_course.exercises.spec import Lesson, question

QUESTIONS = {
    "one-head-difference": question(
        "One head, as wide as d_model, is trained to return c_a − c_b, with contents of 6 "
        "numbers. Which R² can it reach? 1 is perfect, and 0 is no better than always guessing "
        "the mean.",
        "about 0 → It can fetch c_a alone. How much of c_a − c_b does that explain?",
        "✔ about ½ → Fetching one of the two explains half of the variance. Contents that steer "
        "the weights can add a little.",
        "about 1 → For that, c_b would need a negative weight. The weights of one head are never "
        "negative.",
        units="%",
        also=("1/2", "half", "0.5", "50%", "7/12", "0.583", ".583", "0.58", "58%"),
    ),
    "twin-heads": question(
        "Two heads start with the same numbers. They are trained without dropout on c_a − c_b, "
        "which needs two different heads. What are they afterwards?",
        "each attends to another token → What would move the first head one way and the second "
        "another? Their gradients are equal.",
        "✔ bit for bit the same → The same numbers give the same output, the same gradient and "
        "the same step. Nothing separates them.",
        "one has switched itself off → What happens to one happens to the other, because their "
        "gradients are equal.",
        also=("the same", "identical", "equal", "still the same", "copies of each other"),
    ),
    "thin-part": question(
        "Sixteen heads of two numbers fail to look up one of sixteen keys. All of q, k and v are "
        "thin. You may widen q and k, or v. Which of the two solves it?",
        "✔ q and k → The right key must be found first, and a comparison by two numbers is too "
        "coarse for keys of sixteen.",
        "v → That helps part of the way. Sixteen heads with two numbers of the content each are "
        "enough; what they lack is the right key.",
        "neither → One of them is enough.",
        also=("queries and keys", "qk", "q, k"),
    ),
}

LESSON = Lesson(16, "Why many heads", [], QUESTIONS)
