import sys


class FigureManagerBase:
    def __init__(self, canvas, num):
        self.canvas, self.num = canvas, num
        canvas.manager = self


class _Backend:
    @staticmethod
    def export(cls):
        module = sys.modules[cls.__module__]
        for name in ("FigureCanvas", "FigureManager", "show"):
            setattr(module, name, getattr(cls, name))
        return cls
