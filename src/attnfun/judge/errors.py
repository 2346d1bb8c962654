"""What the judge raises."""


class Unreadable(Exception):
    """A file, a formula or a proof that cannot be read, or contradicts itself."""


class NotCovered(Exception):
    """Something that the judge does not know how to check yet."""


class Stopped(Exception):
    """A limit of the caller was reached before there was a verdict."""
