"""Read: the files of a recording as Evidence, without torch."""
