"""All heads of a model, one of them large, recomputed while a control moves."""
