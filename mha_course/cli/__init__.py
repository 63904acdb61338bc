"""The commands: set up and open the course, edit it, build decks; and what JupyterLab does
differently for it.
"""
