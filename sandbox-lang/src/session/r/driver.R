# Runs the cells of a session of R. Requests come as numbers from one named pipe of the folder, and
# answers go into another one. What the code prints is the program's own output.
local({
    arguments <- commandArgs(trailingOnly = TRUE)
    folder <- arguments[1]
    formats <- strsplit(arguments[2], " ", fixed = TRUE)[[1]]
    display_limit <- as.numeric(arguments[3])
    max_displays <- 1000
    max_names <- 500
    max_text <- 64 * 1024
    width <- 700
    height <- 500
    dpi <- 100
    state <- new.env()
    state$names <- NULL

    in_folder <- function(name) file.path(folder, name)

    # JSON. Texts that are not UTF-8 are made so.
    json_text <- function(text) {
        text <- iconv(enc2utf8(as.character(text)), "UTF-8", "UTF-8", sub = "?")
        text[is.na(text)] <- "NA"
        text <- gsub("\\", "\\\\", text, fixed = TRUE)
        text <- gsub("\"", "\\\"", text, fixed = TRUE)
        text <- gsub("\n", "\\n", text, fixed = TRUE)
        text <- gsub("\t", "\\t", text, fixed = TRUE)
        text <- gsub("[[:cntrl:]]", " ", text)
        paste0("\"", text, "\"")
    }
    json_number <- function(number) {
        if (is.null(number)) "null" else format(number, scientific = FALSE)
    }
    json_list <- function(items) paste0("[", paste(items, collapse = ","), "]")
    json_object <- function(...) {
        fields <- c(...)
        paste0("{", paste0("\"", names(fields), "\":", fields, collapse = ","), "}")
    }

    digits <- c(LETTERS, letters, 0:9, "+", "/")
    base64 <- function(bytes) {
        missing <- -length(bytes) %% 3
        m <- matrix(as.integer(c(bytes, raw(missing))), 3)
        index <- rbind(
            m[1, ] %/% 4, m[1, ] %% 4 * 16 + m[2, ] %/% 16,
            m[2, ] %% 16 * 4 + m[3, ] %/% 64, m[3, ] %% 64
        )
        text <- digits[index + 1]
        if (missing > 0) text[length(text) + 1 - seq_len(missing)] <- "="
        paste(text, collapse = "")
    }

    # Tells the host. A line of a pipe that is not longer than this is written at once.
    tell <- function(message) {
        text <- base64(charToRaw(message))
        starts <- seq(1, nchar(text), by = 3000)
        parts <- substring(text, starts, pmin(starts + 2999, nchar(text)))
        kinds <- c(rep("+", length(parts) - 1), "=")
        write_lines(paste0(kinds, parts))
    }
    write_lines <- function(lines) {
        flush(stdout())
        pipe <- file(in_folder("end"), "w", raw = TRUE)
        on.exit(close(pipe))
        for (line in lines) {
            cat(line, "\n", sep = "", file = pipe)
            flush(pipe)
        }
    }

    # Displays.
    contents <- function(mime, content, size) {
        if (size > display_limit || size > state$room) {
            return(list(omitted = setNames(json_number(size), mime)))
        }
        state$room <- state$room - size
        list(data = setNames(content, mime))
    }
    text_content <- function(mime, text) {
        size <- nchar(text, "bytes")
        contents(mime, json_object(text = json_text(text)), size)
    }
    bytes_content <- function(mime, bytes) {
        contents(mime, json_object(base64 = paste0("\"", base64(bytes), "\"")), length(bytes))
    }
    send_display <- function(kind, all, plot = "null") {
        state$displays <- state$displays + 1
        if (state$displays > max_displays) return(invisible())
        data <- unlist(lapply(all, `[[`, "data"))
        omitted <- unlist(lapply(all, `[[`, "omitted"))
        object <- function(fields) if (is.null(fields)) "{}" else do.call(json_object, as.list(fields))
        tell(json_object(
            type = "\"display\"", cell = json_number(state$cell), kind = json_text(kind),
            data = object(data), omitted = object(omitted), plot = plot
        ))
    }
    printed <- function(value) {
        lines <- utils::capture.output(if (isS4(value)) methods::show(value) else print(value))
        paste(lines, collapse = "\n")
    }
    draws <- function(value) inherits(value, c("ggplot", "trellis", "recordedplot", "gtable"))
    show_value <- function(value, kind) {
        if (draws(value)) return(invisible(print(value)))
        all <- list()
        if (inherits(value, "plotly") && requireNamespace("plotly", quietly = TRUE)) {
            json <- as.character(plotly::plotly_json(value, jsonedit = FALSE))
            all <- list(contents(
                "application/vnd.plotly.v1+json", json_object(json = json_text(json)),
                nchar(json, "bytes")
            ))
            return(send_display(kind, all))
        }
        if (inherits(value, "shiny.tag") || inherits(value, "html")) {
            all <- list(text_content("text/html", as.character(value)))
        }
        send_display(kind, c(all, list(text_content("text/plain", printed(value)))))
    }

    # Plots: an invisible device keeps what was drawn, and each page is drawn again in the formats
    # that the host wants, when the next page or the end of the cell comes.
    drawings <- new.env()
    drawings$device <- NULL
    new_device <- function(...) {
        grDevices::pdf(NULL, width = width / dpi, height = height / dpi)
        grDevices::dev.control(displaylist = "enable")
        drawings$device <- grDevices::dev.cur()
    }
    own_device <- function() {
        !is.null(drawings$device) && identical(grDevices::dev.cur(), drawings$device)
    }
    keep_page <- function(...) {
        if (!own_device()) return(invisible())
        page <- tryCatch(grDevices::recordPlot(), error = function(e) NULL)
        if (!is.null(page) && length(page[[1]]) > 0) send_page(page)
    }
    painters <- list(
        png = function(file) {
            grDevices::png(file, width = width, height = height, res = dpi, type = "cairo")
        },
        jpeg = function(file) {
            grDevices::jpeg(file, width = width, height = height, res = dpi, type = "cairo")
        },
        svg = function(file) grDevices::svg(file, width = width / dpi, height = height / dpi),
        pdf = function(file) grDevices::pdf(file, width = width / dpi, height = height / dpi)
    )
    types <- c(
        png = "image/png", jpeg = "image/jpeg", svg = "image/svg+xml", pdf = "application/pdf"
    )
    send_page <- function(page) {
        all <- lapply(formats, function(format) {
            file <- in_folder("page")
            on.exit(unlink(file))
            painters[[format]](file)
            tryCatch(grDevices::replayPlot(page), finally = grDevices::dev.off())
            bytes <- readBin(file, "raw", file.size(file))
            if (format == "svg") {
                return(text_content(types[[format]], rawToChar(bytes)))
            }
            bytes_content(types[[format]], bytes)
        })
        if (!is.null(drawings$device)) grDevices::dev.set(drawings$device)
        send_display("display", all, json_object(
            width = json_number(width), height = json_number(height), dpi = json_number(dpi)
        ))
    }
    end_pages <- function(is_interrupted) {
        if (is.null(drawings$device)) return(invisible())
        if (drawings$device %in% grDevices::dev.list()) {
            if (!is_interrupted) keep_page()
            grDevices::dev.off(drawings$device)
        }
        drawings$device <- NULL
    }

    # Errors.
    described <- function(name, message, calls) {
        cell_file <- paste0("<cell ", state$cell, ">")
        frames <- character()
        lines <- character()
        for (call in calls) {
            place <- attr(call, "srcref")
            file <- if (is.null(place)) NULL else attr(place, "srcfile")$filename
            text <- substr(paste(deparse(call, nlines = 1), collapse = " "), 1, 200)
            lines <- c(lines, text)
            if (is.null(file)) next
            frames <- c(frames, json_object(
                file = json_text(file), line = json_number(as.integer(place)[1]),
                `function` = json_text(substr(paste(deparse(call[[1]], nlines = 1)), 1, 100))
            ))
        }
        trace <- paste(c(paste0(name, ": ", message), lines), collapse = "\n")
        json_object(
            name = json_text(name), message = json_text(substr(message, 1, max_text)),
            traceback = json_text(substr(trace, 1, max_text)),
            frames = json_list(utils::tail(frames, 100))
        )
    }

    # Runs a cell. Returns its error as JSON.
    execute <- function(code, name) {
        place <- function(line) {
            json_list(json_object(
                file = json_text(name), line = json_number(line), `function` = "null"
            ))
        }
        lines <- strsplit(code, "\n", fixed = TRUE)[[1]]
        source <- srcfilecopy(name, lines, isFile = FALSE)
        parsed <- tryCatch(
            parse(text = lines, keep.source = TRUE, srcfile = source),
            error = function(e) e
        )
        if (inherits(parsed, "error")) {
            text <- conditionMessage(parsed)
            line <- as.integer(sub("(?s)^[^\n]*?:([0-9]+):[0-9]+:.*", "\\1", text, perl = TRUE))
            text <- json_text(text)
            return(json_object(
                name = "\"parseError\"", message = text, traceback = text,
                frames = if (is.na(line)) "[]" else place(line)
            ))
        }
        places <- attr(parsed, "srcref")
        calls <- NULL
        depth <- sys.nframe()
        step <- 0
        tryCatch(
            withCallingHandlers(
                {
                    for (step in seq_along(parsed)) {
                        found <- withVisible(eval(parsed[[step]], globalenv()))
                        if (!found$visible) next
                        if (step == length(parsed)) {
                            show_value(found$value, "result")
                        } else if (isS4(found$value)) {
                            methods::show(found$value)
                        } else {
                            print(found$value)
                        }
                    }
                    NULL
                },
                error = function(e) calls <<- sys.calls()
            ),
            error = function(e) {
                # Those of this driver come first, and those of the handler last.
                own <- calls[seq_along(calls) > depth]
                begin <- Position(function(call) identical(call[[1]], quote(eval)), own)
                own <- utils::head(own[-seq_len(if (is.na(begin)) 0 else begin + 1)], -2)
                top <- structure(parsed[step], names = NULL)[[1]]
                if (!is.call(top)) top <- call("cell")
                attr(top, "srcref") <- places[[step]]
                described(class(e)[1], conditionMessage(e), c(list(top), own))
            },
            interrupt = function(e) {
                state$is_interrupted <- TRUE
                described("interrupt", "the cell was interrupted", list())
            }
        )
    }

    run_cell <- function(cell) {
        state$cell <- cell
        state$displays <- 0
        state$room <- display_limit * 4
        state$is_interrupted <- FALSE
        size <- file.size(in_folder("code"))
        code <- readChar(in_folder("code"), size, useBytes = TRUE)
        if (length(code) == 0) code <- ""
        Encoding(code) <- "UTF-8"
        # From here on, an interrupt is this cell's.
        error <- tryCatch(
            {
                close(file(in_folder("waiting"), "w"))
                execute(code, paste0("<cell ", cell, ">"))
            },
            interrupt = function(e) {
                state$is_interrupted <- TRUE
                described("interrupt", "the cell was interrupted", list())
            }
        )
        while (sink.number() > 0) sink()
        while (sink.number("message") != 2) sink(type = "message")
        tryCatch(end_pages(state$is_interrupted), error = function(e) {
            message("a plot cannot be shown: ", conditionMessage(e))
        })
        end_cell(if (is.null(error)) "null" else error)
    }
    end_cell <- function(error) {
        names <- ls(globalenv())
        told <- list(length(names), utils::head(substr(names, 1, 100), max_names))
        variables <- "null"
        if (!identical(told, state$names)) {
            state$names <- told
            list <- if (length(names) == 0) "[]" else json_list(json_text(told[[2]]))
            variables <- json_object(total = json_number(told[[1]]), names = list)
        }
        tell(json_object(
            type = "\"done\"", cell = json_number(state$cell), error = error,
            variables = variables,
            displays_omitted = json_number(max(0, state$displays - max_displays)),
            stdout = "0", stderr = "0"
        ))
        write_lines(paste(state$cell, "0 0"))
    }

    display <- function(...) for (value in list(...)) show_value(value, "display")

    # Code is UTF-8. Images without a locale of their own have at least this one.
    if (all(Sys.getenv(c("LC_ALL", "LC_CTYPE", "LANG")) %in% c("", "C", "POSIX"))) {
        suppressWarnings(Sys.setlocale("LC_CTYPE", "C.UTF-8"))
    }
    attach(list(display = display), name = "sandbox", warn.conflicts = FALSE)
    if (length(formats) > 0) {
        options(device = new_device)
        setHook("before.plot.new", keep_page)
        setHook("before.grid.newpage", keep_page)
    }
    options(width = 80, keep.source = TRUE, warn = 1, browser = function(url) invisible())
    write_lines(paste("0 0 0", paste(R.version$major, R.version$minor, sep = ".")))
    requests <- file(in_folder("sh"), "r", blocking = TRUE, raw = TRUE)
    repeat {
        # An interrupt that comes after its cell has ended is nobody's.
        cell <- tryCatch(readLines(requests, 1), interrupt = function(e) NULL)
        if (is.null(cell)) next
        if (length(cell) == 0) break
        run_cell(as.numeric(cell))
    }
})
