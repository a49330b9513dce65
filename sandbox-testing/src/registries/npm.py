# Makes the files of a registry of npm in a folder.
import base64, hashlib, io, json, os, sys, tarfile

folder = sys.argv[1]


def package(name, versions):
    document = {"name": name, "dist-tags": {"latest": list(versions)[-1]}, "versions": {}}
    for version, (manifest, files) in versions.items():
        manifest = {"name": name, "version": version, "main": "index.js", **manifest}
        files = {
            "package.json": json.dumps(manifest),
            "index.js": f"exports.version = '{version}';\n",
            "cli.js": f"#!/usr/bin/env node\nconsole.log('ran', '{version}');\n",
            **files,
        }
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w:gz") as archive:
            for path, content in files.items():
                entry = tarfile.TarInfo("package/" + path)
                entry.size = len(content)
                entry.mode = 0o755 if path == "cli.js" else 0o644
                archive.addfile(entry, io.BytesIO(content.encode()))
        data = data.getvalue()
        file = f"-/{name.replace('/', '-')}-{version}.tgz"
        os.makedirs(f"{folder}/-", exist_ok=True)
        open(f"{folder}/{file}", "wb").write(data)
        digest = base64.b64encode(hashlib.sha512(data).digest()).decode()
        # npm replaces the host of its own registry by the configured one.
        dist = {"tarball": f"https://registry.npmjs.org/{file}", "integrity": f"sha512-{digest}"}
        has_script = "scripts" in manifest
        document["versions"][version] = {**manifest, "hasInstallScript": has_script, "dist": dist}
    open(f"{folder}/{name.replace('/', '%2f')}", "w").write(json.dumps(document))


def one(name, manifest={}, files={}):
    package(name, {"1.0.0": (manifest, files)})


program = {"bin": {"demo": "cli.js"}}
package("demo", {"1.0.0": (program, {}), "2.0.0": (program, {})})
one("@scope/demo", {"exports": "./index.js"})
one("needs", {"dependencies": {"demo": "^1.0.0"}}, {"index.js": "exports.version = require('demo').version;\n"})
write = "echo script > ran; node -e \"require('fs').writeFileSync('ran', 'script')\""
scripts = {name: write for name in ["preinstall", "install", "postinstall", "prepare"]}
one("scripted", {"scripts": scripts})
one("native", {"scripts": {"install": "node-gyp rebuild"}}, {"binding.gyp": "{}"})
one("git", {"dependencies": {"x": "git+https://127.0.0.1:1/x.git"}})
one("linked", {"dependencies": {"x": "file:/etc"}})
one("outside", {"bin": {"../../../../outside": "cli.js"}}, {"../../../outside": "out", "index.js": "exports.version = 'inside';\n"})
