class Gcf:
    figs = {}

    @classmethod
    def get_all_fig_managers(cls):
        return list(cls.figs.values())

    @classmethod
    def destroy(cls, num):
        manager = cls.figs.pop(num, None)
        if manager:
            manager.destroy()

    @classmethod
    def destroy_all(cls):
        for num in list(cls.figs):
            cls.destroy(num)
