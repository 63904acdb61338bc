"""A rule for each torch function: how its result's axes follow from its arguments."""
