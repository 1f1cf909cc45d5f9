"""A package of its own, so that no other distribution's `tests` is taken for it by the processes that tests start."""
