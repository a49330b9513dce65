# Downloads sources of packages, and of those that they need, into "sources". "order" then names the files, those that
# others need first. Arguments: NAME[,OPERATOR VERSION]...
fail <- function(kind, ...) {
  message("sandbox-cran: ", kind)
  message("error: ", gsub("[[:space:]]+", " ", paste0(...)))
  quit("no", 1)
}

repositories <- strsplit(Sys.getenv("SANDBOX_CRAN_REPOSITORIES", "https://cloud.r-project.org"), " +")[[1]]
repositories <- sub("/+$", "", repositories)
options(timeout = 600)

# Runs an expression, and gives its warnings to a function.
heeding <- function(expression, heed) {
  problems <- character()
  value <- withCallingHandlers(
    tryCatch(expression, error = function(error) {
      problems <<- c(problems, conditionMessage(error))
      NULL
    }),
    warning = function(warning) {
      problems <<- c(problems, conditionMessage(warning))
      invokeRestart("muffleWarning")
    }
  )
  if (length(problems)) heed(paste(problems, collapse = "; "))
  value
}

# The sources of a repository, the newest first. R's own function would also load a file of serialized objects.
index <- function(repository) {
  contrib <- paste0(repository, "/src/contrib")
  fields <- c("Package", "Version", "Depends", "Imports", "LinkingTo", "MD5sum", "OS_type")
  why <- NULL
  for (name in c("PACKAGES.gz", "PACKAGES")) {
    file <- file.path(tempdir(), name)
    failed <- FALSE
    heeding(download.file(paste0(contrib, "/", name), file, quiet = TRUE, mode = "wb"), function(problem) {
      failed <<- TRUE
      why <<- problem
    })
    if (failed) next
    rows <- heeding(read.dcf(file, fields), function(problem) fail("failed", "the index of ", repository, ": ", problem))
    rows <- rows[!rows[, "OS_type"] %in% "windows", , drop = FALSE]
    newest <- order(package_version(rows[, "Version"], strict = FALSE), decreasing = TRUE)
    return(cbind(rows[newest, , drop = FALSE], Contrib = rep(contrib, nrow(rows))))
  }
  fail("unreachable", why)
}
available <- do.call(rbind, lapply(repositories, index))
present <- installed.packages(.Library)
own <- rownames(present)[present[, "Priority"] %in% "base"]
own_or_recommended <- rownames(present)[!is.na(present[, "Priority"])]

wanted <- list()
for (argument in strsplit(commandArgs(TRUE), ",", fixed = TRUE)) {
  wanted[[argument[1]]] <- strsplit(argument[-1], " ", fixed = TRUE)
}

fetch <- function(name, version, address) {
  file <- file.path("sources", paste0(name, "_", version, ".tar.gz"))
  address <- paste0(address, "/", basename(file))
  heeding(download.file(address, file, quiet = TRUE, mode = "wb"), function(problem) {
    is_missing <- grepl("404|cannot open file|No such file", problem)
    fail(if (is_missing) "not-found" else "unreachable", name, " ", version, ": ", problem)
  })
  file
}

# What a package needs of others, as the text of each.
needs <- function(row) {
  texts <- row[c("Depends", "Imports", "LinkingTo")]
  texts <- trimws(unlist(strsplit(texts[!is.na(texts)], ",", fixed = TRUE)))
  texts[nzchar(texts)]
}
needed <- function(text) sub("[[:space:]]*\\(.*", "", text)
# What this R is too old for.
too_new <- function(row) {
  texts <- needs(row)
  texts <- texts[needed(texts) == "R"]
  versions <- sub(".*>=[[:space:]]*([0-9.-]+).*", "\\1", texts)
  texts[versions != texts & vapply(versions, function(version) compareVersion(as.character(getRversion()), version) < 0, NA)]
}

# The source of the version that is asked for, and what the package says of itself.
take <- function(name) {
  rows <- available[available[, "Package"] == name, , drop = FALSE]
  exact <- NULL
  for (comparison in wanted[[name]]) if (comparison[1] == "==") exact <- comparison[2]
  if (!nrow(rows) && is.null(exact)) fail("not-found", "there is no package ", name)
  suitable <- Filter(function(at) !length(too_new(rows[at, ])), seq_len(nrow(rows)))
  if (nrow(rows) && !length(suitable)) fail("not-found", name, " needs ", too_new(rows[1, ])[1])
  row <- if (length(suitable)) rows[suitable[1], ]
  if (is.null(exact) || !is.null(row) && compareVersion(row[["Version"]], exact) == 0) {
    file <- fetch(name, row[["Version"]], row[["Contrib"]])
    if (!is.na(row[["MD5sum"]]) && tools::md5sum(file) != row[["MD5sum"]]) {
      fail("failed", basename(file), " is not the file that the index describes")
    }
  } else {
    # The index has the newest version only.
    file <- fetch(name, exact, paste0(repositories[1], "/src/contrib/Archive/", name))
    part <- file.path(name, "DESCRIPTION")
    untar(file, part, exdir = tempdir())
    row <- read.dcf(file.path(tempdir(), part), c("Version", "Depends", "Imports", "LinkingTo"))[1, ]
    if (length(too_new(row))) fail("not-found", name, " ", exact, " needs ", too_new(row)[1])
  }
  for (comparison in wanted[[name]]) {
    if (compareVersion(row[["Version"]], comparison[2]) < 0) {
      fail("not-found", "the newest ", name, " is ", row[["Version"]])
    }
  }
  list(file = file, row = row)
}

order <- character()
seen <- own
visit <- function(name) {
  if (name %in% seen) return()
  seen <<- c(seen, name)
  taken <- take(name)
  for (other in setdiff(needed(needs(taken$row)), "R")) {
    if (other %in% names(wanted) || !other %in% own_or_recommended) visit(other)
  }
  order <<- c(order, basename(taken$file))
}

dir.create("sources")
for (name in names(wanted)) visit(name)
writeLines(order, "order")
