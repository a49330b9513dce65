"""A stand-in for matplotlib: what its backends need of it."""


class _RcParams(dict):
    pass


rcParams = _RcParams(backend=object())
