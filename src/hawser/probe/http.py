"""Requests per second and their latency: wrk at the source, nginx at the target."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hawser.node.base import NodeError, Process
from hawser.probe import nstat, wrk
from hawser.probe.base import Context, ProbeError
from hawser.probe.endpoint import Endpoint, endpoints
from hawser.probe.ping import FINE
from hawser.probe.port import Sleep, choosing, until_listening
from hawser.spec.measurement import Http
from hawser.store.sample import Sample

_TIMEOUT_SECONDS = 10
"""Timeout of requests in wrk, seconds."""
_GRACE_SECONDS = 20
_ACCEPTED = "TcpPassiveOpens"
"""Connections accepted by listening sockets (RFC 4022, tcpPassiveOpens)."""

_OBJECT = "object"
_SCRIPT = "wrk.lua"
_CONFIG = """\
daemon off;
user root;
worker_processes {workers};
worker_rlimit_nofile {files};
pid nginx.pid;
error_log error.log warn;
events {{ worker_connections {files}; }}
http {{
  access_log off;
  default_type application/octet-stream;
  client_body_temp_path temporary; proxy_temp_path temporary; fastcgi_temp_path temporary;
  uwsgi_temp_path temporary; scgi_temp_path temporary;
  sendfile on; tcp_nopush on; tcp_nodelay on;
  open_file_cache max=16;
  keepalive_requests 1000000000; keepalive_timeout 1h;
  add_header X-Due $http_x_due always;
  server {{ listen {address}:{port} backlog=65535; root objects; }}
}}
"""


class HttpProbe:
    """Repeated requests for one object over many connections."""

    def __init__(self, spec: Http, sleep: Sleep = time.sleep) -> None:
        self._spec = spec
        self._sleep = sleep

    def measure(self, context: Context) -> list[Sample]:
        """Serve the object, warm up, and measure.

        Raises:
            ProbeError: a tool failed, or no answer came though nothing was taken down.
        """
        try:
            return self._measure(context)
        except (NodeError, ProbeError) as error:
            place = f"http {self._spec.source} -> {self._spec.target}"
            raise ProbeError(f"{place}: {error}") from error

    def _measure(self, context: Context) -> list[Sample]:
        source, target = endpoints(context.lab, self._spec)
        script = _folder(source, context) / _SCRIPT
        source.node.put(script, self._script().encode())
        with self._server(target, _folder(target, context)) as port:
            context.started()
            url = f"http://{target.host}:{port}/{_OBJECT}"
            if self._spec.warmup:
                self._run(source, script, url, self._spec.warmup)
            accepted = nstat.counters(target.node, _ACCEPTED)
            text, result = self._run(source, script, url, self._spec.duration)
            opened = nstat.since(accepted, nstat.counters(target.node, _ACCEPTED))[_ACCEPTED]
        (context.raw / f"{context.measurement}.wrk.txt").write_text(text)
        if not result.requests and not context.disrupted:
            raise ProbeError(f"no response was received; errors: {result.errors}")
        return samples(context.measurement, self._spec, result, opened)

    @contextmanager
    def _server(self, target: Endpoint, folder: Path) -> Iterator[int]:
        """Serve the object; gives the server's port."""
        with choosing(target.node, self._spec.port) as port:
            self._prepare(target, folder, port)
            process = self._listen(target, folder, port)
        try:
            yield port
        finally:
            process.stop()

    def _prepare(self, target: Endpoint, folder: Path, port: int) -> None:
        """Write the server's files; the object's bytes do not matter, but are not a hole."""
        target.node.put(folder / "nginx.conf", self._config(target, port).encode())
        target.node.put(folder / "objects" / _OBJECT, b"x" * int(self._spec.size))

    def _listen(self, target: Endpoint, folder: Path, port: int) -> Process:
        """Start a server and wait until it takes connections."""
        command = ["nginx", "-p", str(folder), "-c", "nginx.conf", "-e", "error.log"]
        process = target.node.start(command)
        try:
            until_listening(target.node, process, port, self._sleep)
        except BaseException:
            process.stop()
            raise
        return process

    def _config(self, target: Endpoint, port: int) -> str:
        spec = self._spec
        return _CONFIG.format(
            workers=spec.workers,
            files=2 * spec.connections + 64,  # each serves a file as well
            address=target.host,
            port=port,
        )

    def _run(
        self, source: Endpoint, script: Path, url: str, seconds: float
    ) -> tuple[str, wrk.Result]:
        """Run wrk for a time; gives its output and the result."""
        done = source.node.run(
            [*self._client(script, seconds), url],
            timeout=seconds + _TIMEOUT_SECONDS + _GRACE_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise ProbeError(f"wrk ended with code {done.returncode}: {done.stderr.strip()[-200:]}")
        return done.stdout + done.stderr, wrk.parse(done.stderr)

    def _script(self) -> str:
        spec = self._spec
        if spec.request_rate is None:
            return wrk.CLOSED_LOOP
        return wrk.open_loop(spec.request_rate, spec.threads)

    def _client(self, script: Path, seconds: float) -> list[str]:
        spec = self._spec
        command = [
            "wrk", "--latency",
            "--connections", str(spec.connections),
            "--threads", str(spec.threads),
            "--duration", f"{round(seconds)}s",
            "--timeout", f"{_TIMEOUT_SECONDS}s",
            "--script", str(script),
        ]  # fmt: skip
        if not spec.keepalive:
            command += ["--header", "Connection: close"]
        return command

    def seconds(self) -> float:
        """Warm-up and test."""
        return self._spec.seconds

    def tools(self) -> tuple[str, ...]:
        """`wrk`, and `nginx`."""
        return ("wrk", "nginx")


def _folder(end: Endpoint, context: Context) -> Path:
    """Where the files of a measurement lie on a node."""
    return end.node.directory / "http" / context.measurement


def samples(measurement: str, spec: Http, result: wrk.Result, opened: int) -> list[Sample]:
    """Requests a second, latencies, errors; and connections a second where each request has one."""
    rows = [("requests", "1/s", result.requests / result.seconds)]
    if not spec.keepalive:
        rows.append(("connections", "1/s", opened / result.seconds))
    if result.requests:
        percentiles = ["p50", "p90", "p99", *(["p999"] if result.requests >= FINE else [])]
        rows += [(f"http_latency_{p}", "ms", result.latency_ms[p]) for p in percentiles]
    if spec.request_rate is not None:
        rows.append(("http_unsent", "requests", result.unsent))
    rows.append(("http_errors", "requests", sum(result.errors.values())))
    return [
        Sample(measurement=measurement, metric=metric, unit=unit, value=value, direction="both")
        for metric, unit, value in rows
    ]
