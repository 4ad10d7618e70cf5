"""What the bench reads of processes."""

from __future__ import annotations

import os
import socket
import time
from contextlib import ExitStack

import process_meter


def test_connections_to_a_port_are_counted_for_the_process_that_accepted_them() -> None:
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = listener.getsockname()[1]
        assert process_meter.sockets_by_process(os.getpid(), port) == []
        for _ in range(3):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            stack.enter_context(listener.accept()[0])
        assert process_meter.sockets_by_process(os.getpid(), port) == [3]


def test_cpu_of_the_main_thread_is_part_of_that_of_the_process() -> None:
    before_s = process_meter.main_thread_cpu_s(os.getpid())
    began_s = time.process_time()
    while time.process_time() - began_s < 0.05:
        pass
    assert 0.02 < process_meter.main_thread_cpu_s(os.getpid()) - before_s
    assert process_meter.main_thread_cpu_s(os.getpid()) <= process_meter.cpu_s(os.getpid())
