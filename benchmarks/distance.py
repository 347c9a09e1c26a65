"""A TCP proxy that delays each direction, to stand for the network to an object store.

A process of its own, so that the client that makes the load spends nothing on it:

    python -m benchmarks.distance 8333 5
"""

import asyncio
import sys
from asyncio import Queue, StreamReader, StreamWriter
from contextlib import suppress

CHUNK_BYTES = 1 << 18
CHUNKS_MAX = 64
"""How much of one direction of a connection is on its way at most: more than 5 ms of anything."""


async def carry(reader: StreamReader, writer: StreamWriter, delay_seconds: float) -> None:
    """Pass on all bytes of one direction, each piece `delay_seconds` after it arrived."""
    clock = asyncio.get_running_loop().time
    under_way: Queue[tuple[float, bytes]] = Queue(CHUNKS_MAX)

    async def deliver() -> None:
        while True:
            due, data = await under_way.get()
            await asyncio.sleep(due - clock())
            if not data:
                return
            writer.write(data)
            await writer.drain()

    delivery = asyncio.create_task(deliver())
    with suppress(OSError):
        while not delivery.done():
            data = await reader.read(CHUNK_BYTES)
            await under_way.put((clock() + delay_seconds, data))
            if not data:
                break
    with suppress(OSError):
        await delivery
    writer.close()


async def serve(target_port: int, delay_seconds: float) -> None:
    """Listen on a free port, print it, and pass every connection on to the target."""

    async def pass_on(reader: StreamReader, writer: StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", target_port)
        await asyncio.gather(
            carry(reader, back, delay_seconds), carry(there, writer, delay_seconds)
        )

    server = await asyncio.start_server(pass_on, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2]) / 1000))
