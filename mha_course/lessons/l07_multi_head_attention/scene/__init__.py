"""The whole of multi-head attention in one picture that answers."""
