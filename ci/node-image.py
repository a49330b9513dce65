#!/usr/bin/env python3
"""Packs a file system into an image archive, in the format of `docker save`.

Usage: node-image.py LAYER.tar IMAGE.tar NAME…      standard input: ENV, USER, WORKDIR, ENTRYPOINT and CMD lines
"""
import hashlib, io, json, os, platform, sys, tarfile

layer, path, *names = sys.argv[1:]
config = {"Env": []}
for line in sys.stdin.read().splitlines():
    word, rest = line.split(" ", 1)
    if word == "ENV":
        config["Env"].append(rest)
    elif word in ("USER", "WORKDIR"):
        config[{"USER": "User", "WORKDIR": "WorkingDir"}[word]] = rest
    else:
        config[{"ENTRYPOINT": "Entrypoint", "CMD": "Cmd"}[word]] = json.loads(rest)
with open(layer, "rb") as file:
    digest = hashlib.file_digest(file, "sha256").hexdigest()
inside = f"{digest}/layer.tar"
architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
description = {"architecture": architecture, "os": "linux", "config": config}
description["rootfs"] = {"type": "layers", "diff_ids": [f"sha256:{digest}"]}
manifest = [{"Config": "config.json", "RepoTags": names, "Layers": [inside]}]
with tarfile.open(path + ".partial", "w") as archive:
    for name, value in (("config.json", description), ("manifest.json", manifest)):
        data = json.dumps(value).encode()
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    archive.add(layer, arcname=inside)
os.rename(path + ".partial", path)
