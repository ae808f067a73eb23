"""A server of S3 for tests (moto), on a free port of the loopback interface. Prints the port, and ends with its parent's pipe.

Arguments are buckets that it has from the start. As S3, it gives those without a key what is public only: a request to
/-/public makes everything so. A request to /-/fault?cut=N makes the next N answers with a body of more than 64 KiB end in the middle, and
/-/fault?refuse=N refuses the next N requests with 503 Slow Down. /-/fault?grow=N or shrink=N replaces the object by one that is longer or
shorter, after each of the next N requests for its size. /-/refuse?match=EXPRESSION&skip=N&times=M does so with those of
which "METHOD path?query" matches, the first N of them excepted, M times; the last such request counts. /-/counts tells how many
there were.

A line "down" on standard input closes the port and cuts all connections, "up" opens it again, with what it had. "has PATH" asks
whether the first bucket has such an object: "yes" or "no". Each is answered with a line.
"""

import os
import re
import sys
import threading
from urllib.parse import parse_qs

os.environ.setdefault("AWS_ACCESS_KEY_ID", "server")
os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "server")

from moto.core import DEFAULT_ACCOUNT_ID
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import WSGIRequestHandler, make_server

LARGE = 64 << 10
STORE = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]


class Faults:
    def __init__(self, app):
        self.app, self.lock = app, threading.Lock()
        self.public = False
        self.down = False
        self.left = {"cut": 0, "refuse": 0, "grow": 0, "shrink": 0}
        self.counts = {"requests": 0, "matched": 0, **self.left}
        self.match, self.skip, self.times = None, 0, 0

    def take(self, fault):
        with self.lock:
            if not self.left[fault]:
                return False
            self.left[fault] -= 1
            self.counts[fault] += 1
            return True

    def is_refused(self, environ):
        with self.lock:
            text = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}?{environ['QUERY_STRING']}"
            if not self.match or not self.times or not re.search(self.match, text):
                return False
            if self.skip:
                self.skip -= 1
                return False
            self.times -= 1
            self.counts["matched"] += 1
            return True

    def __call__(self, environ, start_response):
        if self.down:
            raise ConnectionAbortedError("down")
        if environ["PATH_INFO"] == "/-/fault":
            for fault, number in parse_qs(environ["QUERY_STRING"]).items():
                self.left[fault] = int(number[0])
            start_response("200 OK", [("Content-Length", "0")])
            return [b""]
        if environ["PATH_INFO"] == "/-/refuse":
            asked = parse_qs(environ["QUERY_STRING"])
            with self.lock:
                self.match = asked.get("match", [None])[0]
                self.skip, self.times = (int(asked.get(name, ["0"])[0]) for name in ("skip", "times"))
            start_response("200 OK", [("Content-Length", "0")])
            return [b""]
        if environ["PATH_INFO"] == "/-/counts":
            body = " ".join(f"{name}={count}" for name, count in self.counts.items()).encode()
            start_response("200 OK", [("Content-Length", str(len(body)))])
            return [body]
        if environ["PATH_INFO"] == "/-/public":
            self.public = True
            start_response("200 OK", [("Content-Length", "0")])
            return [b""]
        if not self.public and "HTTP_AUTHORIZATION" not in environ:
            body = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
            start_response("403 Forbidden", [("Content-Length", str(len(body))), ("Content-Type", "application/xml")])
            return [body]
        self.counts["requests"] += 1
        if self.take("refuse") or self.is_refused(environ):
            start_response("503 Slow Down", [("Content-Length", "0")])
            return [b""]
        body = b"".join(self.app(environ, start_response))
        if environ["REQUEST_METHOD"] == "GET" and len(body) > LARGE and self.take("cut"):
            return self.cut(body)
        if environ["REQUEST_METHOD"] == "HEAD":
            if self.take("grow"):
                self.replace(environ["PATH_INFO"], lambda old: old + b" and more")
            elif self.take("shrink"):
                self.replace(environ["PATH_INFO"], lambda old: old[:-1])
        return [body]

    @staticmethod
    def replace(path, change):
        bucket, _, name = path.strip("/").partition("/")
        STORE.put_object(bucket, name, change(STORE.get_object(bucket, name).value))

    def cut(self, body):
        yield body[: len(body) // 2]
        raise ConnectionAbortedError("cut by the test")


class Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *args, **kwargs):
        pass


def main():
    for bucket in sys.argv[1:]:
        STORE.create_bucket(bucket, "us-east-1")
    app = Faults(DomainDispatcherApplication(create_backend_app))

    def listen(port):
        server = make_server("127.0.0.1", port, app, threaded=True, request_handler=Quiet)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    server = listen(0)
    port = server.port
    print(port, flush=True)
    for line in sys.stdin:  # until the test ends
        order, _, path = line.strip().partition(" ")
        answer = "done"
        if order == "has":
            answer = "yes" if STORE.get_object(sys.argv[1], path) else "no"
        elif order == "down":
            app.down = True
            server.shutdown()
            server.server_close()
        else:
            app.down = False
            server = listen(port)
        print(answer, flush=True)
    os._exit(0)


main()
