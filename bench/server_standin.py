"""A stand-in for the server, which answers everything with the same bytes: it shows what making the load costs.

Those who watch run on the cores of the server that they watch, which they do not elsewhere. While they ask the
stand-in, a process of its own, an operation is slowed by them alone; what is missing to that beside the server itself
is the cost of answering.
"""

import asyncio
import socket
import subprocess
import sys
from contextlib import contextmanager
from urllib.request import urlopen

from server_process import HOST, cpu_s

EVENT_EVERY_S = 1.0  # as often as a server says that an operation goes on
BODY = b"x" * 2_000  # about what lists and pages weigh, compressed
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: %d\r\n\r\n%s" % (len(BODY), BODY)
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
EVENT = b'data: ["operations", "operation:1"]\n\n'


class StandIn:
    """The stand-in as those who watch see it.

    Attributes:
        port: where it listens.
    """

    def __init__(self, process, port):
        self._process = process
        self.port = port

    @property
    def cpu_s(self):
        """The CPU time that it has used, in seconds."""
        return cpu_s(self._process.pid)


@contextmanager
def running_stand_in():
    """Start it, and stop it."""
    with socket.create_server((HOST, 0), backlog=1_000) as listener:
        command = [sys.executable, __file__, str(listener.fileno())]
        with subprocess.Popen(command, pass_fds=[listener.fileno()]) as process:  # noqa: S603 - our own
            try:
                stand_in = StandIn(process, listener.getsockname()[1])
                urlopen(f"http://{HOST}:{stand_in.port}/").close()  # it has begun: that is not to be counted
                yield stand_in
            finally:
                process.terminate()


class Answers(asyncio.Protocol):
    """Answers on one connection: a stream of events to those who ask for it, and always the same to others.

    Args:
        streams: the transports of all streams.
    """

    def __init__(self, streams):
        self._streams = streams

    def connection_made(self, transport):
        """Begin."""
        self._transport = transport

    def data_received(self, data):
        """Answer; a client sends one request at a time, in one piece."""
        if b"/events " in data:
            self._transport.write(STREAM)
            self._streams.add(self._transport)
        else:
            self._transport.write(ANSWER)

    def connection_lost(self, _error):
        """End."""
        self._streams.discard(self._transport)


async def serve(descriptor):
    """Answer until the process is ended."""
    listener = socket.socket(fileno=descriptor)
    streams = set()
    await asyncio.get_running_loop().create_server(lambda: Answers(streams), sock=listener)
    while True:
        await asyncio.sleep(EVENT_EVERY_S)
        for transport in streams:
            transport.write(EVENT)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
