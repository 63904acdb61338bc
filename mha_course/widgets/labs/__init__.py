"""Labs: one idea each, a few controls, one picture, and a sentence that reads it."""
