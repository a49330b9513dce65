class FigureCanvasAgg:
    def __init__(self, figure):
        self.figure = figure
        figure.canvas = self

    def print_figure(self, file, format="png", dpi=None):
        file.write(("%s %s" % (format, self.figure.text)).encode())
