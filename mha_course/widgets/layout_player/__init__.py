"""What a split and a merge do in memory, number by number."""
