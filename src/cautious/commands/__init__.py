"""The commands of ``cautious``: arguments in, calls of the library, files and text out."""
