"""The rule of each function of torch: how the axes of its result follow from its arguments."""
