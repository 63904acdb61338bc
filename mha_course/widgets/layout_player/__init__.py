"""What split and merge do in memory, number by number."""
