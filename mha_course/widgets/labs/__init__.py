"""Labs: each has one idea, a few controls, one picture, and a sentence about it."""
