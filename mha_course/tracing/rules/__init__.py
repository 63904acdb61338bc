"""How each family of operations passes the names of axes on."""
