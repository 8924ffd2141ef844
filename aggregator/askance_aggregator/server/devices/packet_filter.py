"""Filter on a listening socket of Linux: no connection from banned networks.

The kernel drops the first packet of a connection from such a network, which no process sees
(socket(7), SO_ATTACH_FILTER). A process needs no privilege for its own socket.
"""

from __future__ import annotations

import ctypes
import socket
import struct
import sys
from collections.abc import Collection
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Network

from askance_aggregator.server.outer.addresses import Network

_ATTACH, _DETACH = 26, 27  # SO_ATTACH_FILTER, SO_DETACH_FILTER
_INSTRUCTION = struct.Struct("=HBBI")
_NETWORK = 0xFFF00000  # SKF_NET_OFF: offsets from here count from the IP header
_LOAD_WORD, _LOAD_BYTE, _SHIFT, _IF_EQUAL, _RETURN = 0x20, 0x30, 0x74, 0x15, 0x06
_WHOLE = 0xFFFFFFFF


def drop_from(listening: socket.socket, networks: Collection[Network]) -> bool:
    """Drop connections from these networks alone; return whether the system can (Linux)."""
    if not sys.platform.startswith("linux"):
        return False
    if not networks:
        with suppress(OSError):  # there was none
            listening.setsockopt(socket.SOL_SOCKET, _DETACH, 0)
        return True
    program = _program(networks)
    held = ctypes.create_string_buffer(program, len(program))
    count = len(program) // _INSTRUCTION.size
    filter_ = struct.pack("@HP", count, ctypes.addressof(held))
    listening.setsockopt(socket.SOL_SOCKET, _ATTACH, filter_)
    return True


def _program(networks: Collection[Network]) -> bytes:
    """Return a program of the kernel's packet filter that drops packets from these networks."""
    fours = [int(one.network_address) for one in networks if isinstance(one, IPv4Network)]
    sixes = [
        divmod(int(one.network_address) >> 64, 1 << 32)
        for one in networks
        if isinstance(one, IPv6Network)
    ]
    program = [(_LOAD_WORD, 0, 0, _NETWORK + 12)] if fours else []
    for four in fours:
        program += [(_IF_EQUAL, 0, 1, four), (_RETURN, 0, 0, 0)]
    program.append((_RETURN, 0, 0, _WHOLE))
    six_program = [(_RETURN, 0, 0, _WHOLE)]
    for high, low in sixes:
        six_program[:0] = [
            (_LOAD_WORD, 0, 0, _NETWORK + 8),
            (_IF_EQUAL, 0, 3, high),
            (_LOAD_WORD, 0, 0, _NETWORK + 12),
            (_IF_EQUAL, 0, 1, low),
            (_RETURN, 0, 0, 0),
        ]
    version = [(_LOAD_BYTE, 0, 0, _NETWORK), (_SHIFT, 0, 0, 4), (_IF_EQUAL, 1, 0, 4)]
    jump = [(0x05, 0, 0, len(program))]  # always; offsets of conditions have 8 bits alone
    return b"".join(_INSTRUCTION.pack(*one) for one in (*version, *jump, *program, *six_program))
