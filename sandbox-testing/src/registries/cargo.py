# Makes the files of a registry of cargo in a folder.
import hashlib, io, json, os, sys, tarfile

folder = sys.argv[1]


def package(name, version, source, dependencies=(), features=(), build=None):
    head = f'[package]\nname = "{name}"\nversion = "{version}"\nedition = "2021"\n'
    needs = "".join(f'{other} = "{range}"\n' for other, range in dependencies)
    named = "".join(f"{feature} = []\n" for feature in features)
    files = {
        "Cargo.toml": f"{head}\n[dependencies]\n{needs}\n[features]\n{named}",
        "src/lib.rs": source,
    }
    if build:
        files["build.rs"] = build
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for path, text in files.items():
            info = tarfile.TarInfo(f"{name}-{version}/{path}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    at = f"{folder}/crates/{name}/{version}"
    os.makedirs(at)
    for path in [f"{at}/download", f"{folder}/{name}-{version}.crate"]:
        with open(path, "wb") as file:
            file.write(content.getvalue())
    line = {
        "name": name,
        "vers": version,
        "deps": [
            {"name": other, "req": range, "features": [], "optional": False, "default_features": True,
             "target": None, "kind": "normal"}
            for other, range in dependencies
        ],
        "cksum": hashlib.sha256(content.getvalue()).hexdigest(),
        "features": {feature: [] for feature in features},
        "yanked": False,
    }
    # As a registry that is served, and as a folder (`local-registry`).
    for at in [folder, f"{folder}/index"]:
        at = f"{at}/{name[:2]}/{name[2:4]}"
        os.makedirs(at, exist_ok=True)
        with open(f"{at}/{name}", "a") as file:
            file.write(json.dumps(line) + "\n")


for version in ["1.0.0", "2.0.0"]:
    package("demo", version, f'pub const VERSION: &str = "{version}";\n')
package(
    "needs",
    "1.0.0",
    "pub const VERSION: &str = demo::VERSION;\npub const EXTRA: bool = cfg!(feature = \"extra\");\n",
    [("demo", "^1")],
    ["extra"],
)
package(
    "built",
    "1.0.0",
    'pub const VERSION: &str = env!("BUILT");\n',
    build='fn main() {\n    let ran = std::fs::write("ran", "");\n    println!("cargo:rustc-env=BUILT={}", ran.is_ok());\n}\n',
)
