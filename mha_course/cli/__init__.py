"""The commands: set up and open the course, edit it, build decks and pages, grade."""
