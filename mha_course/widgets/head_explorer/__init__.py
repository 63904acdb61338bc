"""All heads of a model, one of them enlarged, recomputed while a control moves."""
