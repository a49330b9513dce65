# Plots of a program without a device of its own are files in the folder that SANDBOX_PLOTS names.
options(device = function(...) {
    folder <- Sys.getenv("SANDBOX_PLOTS")
    dir.create(folder, showWarnings = FALSE, recursive = TRUE)
    grDevices::png(
        file.path(folder, "plot-%03d.png"), width = 700, height = 500, res = 100, type = "cairo"
    )
})
