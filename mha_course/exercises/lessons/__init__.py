"""One file a lesson, with all that is asked in it: a new file lNN_name.py with a LESSON needs no other edit."""
