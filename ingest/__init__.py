"""The write side: append to the log, read it, project it, and turn other tools' files into events."""
