# Makes the files of a module proxy of Go in a folder.
import json, os, sys, zipfile

folder = sys.argv[1]


def module(path, version, files, requires=()):
    at = f"{folder}/{path}/@v"
    os.makedirs(at, exist_ok=True)
    lines = "".join(f"require {name} {number}\n" for name, number in requires)
    text = f"module {path}\n\ngo 1.18\n\n{lines}"
    with open(f"{at}/{version}.mod", "w") as file:
        file.write(text)
    with open(f"{at}/{version}.info", "w") as file:
        json.dump({"Version": version, "Time": "2024-01-01T00:00:00Z"}, file)
    with open(f"{at}/list", "a") as file:
        file.write(f"{version}\n")
    with zipfile.ZipFile(f"{at}/{version}.zip", "w") as archive:
        for name, content in {**files, "go.mod": text}.items():
            archive.writestr(f"{path}@{version}/{name}", content)


def demo(version):
    return {
        "demo.go": f'package demo\n\nconst Version = "{version}"\n',
        "cmd/demo/main.go": 'package main\n\nfunc main() {}\n',
    }


module("example.org/demo", "v1.0.0", demo("v1.0.0"))
module("example.org/demo", "v1.1.0", demo("v1.1.0"))
module("example.org/unused", "v1.0.0", {"unused.go": "package unused\n"})
module(
    "example.org/needs",
    "v1.0.0",
    {"sub/sub.go": 'package sub\n\nimport "example.org/demo"\n\nconst Version = "needs " + demo.Version\n'},
    [("example.org/demo", "v1.0.0"), ("example.org/unused", "v1.0.0")],
)
module(
    "example.org/lost",
    "v1.0.0",
    {"lost.go": 'package lost\n\nimport _ "example.org/missing"\n'},
    [("example.org/missing", "v1.0.0")],
)
