# Makes the files of a repository of R in a folder.
import hashlib, io, os, sys, tarfile

folder = sys.argv[1]
contrib = f"{folder}/src/contrib"
os.makedirs(contrib)


def package(name, version, code, fields={}, namespace="", files={}, archived=False, md5=None):
    fields = {"Package": name, "Version": version, **fields}
    described = {**fields, "Title": "Demo", "Description": "A demo.", "License": "MIT",
                 "Author": "Demo", "Maintainer": "Demo <demo@example.org>"}
    lines = lambda fields: "".join(f"{key}: {value}\n" for key, value in fields.items())
    contents = {
        "DESCRIPTION": lines(described),
        "NAMESPACE": f'exportPattern("^[a-z]+$")\n{namespace}',
        "R/code.R": code,
        **files,
    }
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for path, text in contents.items():
            info = tarfile.TarInfo(f"{name}/{path}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    at = f"{contrib}/Archive/{name}" if archived else contrib
    os.makedirs(at, exist_ok=True)
    with open(f"{at}/{name}_{version}.tar.gz", "wb") as file:
        file.write(content.getvalue())
    if not archived:
        sum = md5 or hashlib.md5(content.getvalue()).hexdigest()
        with open(f"{contrib}/PACKAGES", "a") as file:
            file.write(lines({**fields, "MD5sum": sum}) + "\n")


def demo(version):
    return f'version <- function() "{version}"\n'


package("demo", "1.0", demo("1.0"), archived=True)
package("demo", "2.0", demo("2.0"))
package("needs", "1.0", 'version <- function() paste("needs", demo::version())\n',
        {"Depends": "R (>= 3.5), methods", "Imports": "demo (>= 1.0)"}, "import(demo)\n")
package("built", "1.0", """
reached <- tryCatch(
  { readLines(paste0(Sys.getenv("SANDBOX_CRAN_REPOSITORIES"), "/reached")); TRUE },
  error = function(error) FALSE, warning = function(warning) FALSE
)
wrote <- suppressWarnings(file.create("/var/tmp/built-by-r"))
""")
package("native", "1.0", 'version <- function() .Call("version", PACKAGE = "native")\n', {"NeedsCompilation": "yes"},
        "useDynLib(native)\n", {"src/version.c": '#include <Rinternals.h>\nSEXP version(void) { return mkString("1.0"); }\n'})
package("broken", "1.0", "stop('broken on purpose')\n")
package("changed", "1.0", demo("1.0"), md5="0" * 32)
package("lost", "1.0", demo("1.0"), {"Imports": "missing"})
package("newer", "1.0", demo("1.0"), {"Depends": "R (>= 99.0)"})
