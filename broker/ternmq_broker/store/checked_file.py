"""What can be wrong with a file of the store that carries a version and a check sum."""


class NewerFormat(Exception):
    """The file was written by a newer version of TernMQ."""


class DamagedFile(Exception):
    """The bytes are not what was written."""
