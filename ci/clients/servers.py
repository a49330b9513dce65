# Serves each folder NAME.test below FOLDER over HTTPS and HTTP, and answers for these names over DNS on TCP.
# Usage: servers.py FOLDER CERTIFICATE REGISTRIES; REGISTRIES has the scripts that make the files of registries.
# Writes its ports, and free ones for other servers, to FOLDER/ports. Standard output has each question.
import http.server, json, os, re, runpy, socket, socketserver, ssl, struct, sys, threading, zipfile

folder, certificate, registries = sys.argv[1:]


class Web(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def translate_path(self, path):
        self.directory = f"{folder}/{re.sub('[^a-z.]', '', self.headers.get('host', '')).strip('.')}"
        return super().translate_path(path)

    def log_message(self, *_):
        pass


class Names(socketserver.StreamRequestHandler):
    def handle(self):
        while size := self.rfile.read(2):
            query = self.rfile.read(struct.unpack("!H", size)[0])
            end, labels = 12, []
            while length := query[end]:
                labels.append(query[end + 1 : end + 1 + length].decode())
                end += 1 + length
            name, kind = ".".join(labels), struct.unpack("!H", query[end + 1 : end + 3])[0]
            print(name, flush=True)
            known = os.path.isdir(f"{folder}/{name}")
            # The name of the answer is that of the question, whose place is 12. Only type A has one.
            answer = b"\xc0\x0c" + struct.pack("!HHIH4B", 1, 1, 0, 4, 127, 0, 0, 1) if known and kind == 1 else b""
            head = query[:2] + struct.pack("!5H", 0x8180 if known else 0x8183, 1, bool(answer), 0, 0)
            message = head + query[12 : end + 5] + answer
            self.wfile.write(struct.pack("!H", len(message)) + message)


http_server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web)
https_server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate)
# A handshake in the thread of the connection does not delay others.
https_server.socket = context.wrap_socket(https_server.socket, server_side=True, do_handshake_on_connect=False)
name_server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Names)
name_server.daemon_threads = True
ports = {"http": http_server.server_port, "https": https_server.server_port, "dns": name_server.server_address[1]}
others = {name: socket.create_server(("127.0.0.1", 0)) for name in ["ssh", "postgres", "redis"]}
ports.update((name, other.getsockname()[1]) for name, other in others.items())
for other in others.values():
    other.close()

for script, name in [("npm", "npm.test"), ("go", "goproxy.test"), ("cargo", "crates.test")]:
    sys.argv = [script, f"{folder}/{name}"]
    runpy.run_path(f"{registries}/{script}.py")
with open(f"{folder}/crates.test/index/config.json", "w") as file:
    json.dump({"dl": f"https://crates.test:{ports['https']}/crates"}, file)
simple, info = f"{folder}/pypi.test/simple/demo", "demo-1.0.0.dist-info"
os.makedirs(simple)
with zipfile.ZipFile(f"{simple}/demo-1.0.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr("demo.py", "version = '1.0.0'\n")
    wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0.0\n")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(f"{info}/RECORD", f"demo.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
with open(f"{simple}/index.html", "w") as file:
    file.write('<a href="demo-1.0.0-py3-none-any.whl">demo-1.0.0-py3-none-any.whl</a>')

for server in [http_server, https_server, name_server]:
    threading.Thread(target=server.serve_forever).start()
with open(f"{folder}/ports.new", "w") as file:
    file.writelines(f"{name}_port={port}\n" for name, port in ports.items())
os.rename(f"{folder}/ports.new", f"{folder}/ports")
