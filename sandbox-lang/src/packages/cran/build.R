# Installs the files that "order" names into "library".
dir.create("library")
folder <- normalizePath("library")
Sys.setenv(R_LIBS = folder)
for (file in readLines("order")) {
  command <- c(
    "CMD", "INSTALL", "--no-lock", "--no-multiarch", "--no-docs",
    paste0("--library=", folder), file.path("sources", file)
  )
  said <- suppressWarnings(system2(file.path(R.home("bin"), "R"), command, TRUE, TRUE))
  if (!is.null(attr(said, "status"))) {
    without_tools <- any(grepl("(make|cc|g[+][+]|gfortran).*not found", said))
    message("sandbox-cran: ", if (without_tools) "needs-build" else "failed")
    message("error: ", file, ": ", gsub("[[:space:]]+", " ", paste(tail(said, 20), collapse = " ")))
    quit("no", 1)
  }
}
unlink("sources", recursive = TRUE)
