class Figure:
    dpi = 100

    def __init__(self):
        self.text = None

    def get_size_inches(self):
        return (6.4, 4.8)

    def savefig(self, file, **options):
        self.canvas.print_figure(file, **options)
