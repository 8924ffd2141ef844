"""TCP connections of a listener of this process, as the kernel of Linux reports and ends them.

gRPC for Python tells neither a connection's bytes nor closes one. The kernel reports both ends and
the received bytes of every connection (sock_diag(7)), to every user; this process may shut down its
own sockets, and may attach a filter to its own listener, which then drops the first packet of a
connection from a banned address (socket(7), SO_ATTACH_FILTER).

System calls go through `_LIBC`, which keeps Python's lock: none of them waits. The functions of
`os` and `socket` give the lock away, and an event loop that reads 12,000 fields of a call gives it
back 10 ms later, each time.
"""

from __future__ import annotations

import ctypes
import socket
import struct
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address

from askance_aggregator.server.outer.addresses import IpAddress, Network

_SOCK_DIAG = 4  # a protocol of netlink
_BY_FAMILY, _DONE, _ERROR = 20, 3, 2  # types of its messages
_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_ESTABLISHED, _LISTEN = 1, 10  # states
_INFO = 2  # the attribute with a tcp_info
_BYTES_RECEIVED = 128  # its offset there
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBBI48x")
_MESSAGE_BYTES = 72
_ATTRIBUTE = struct.Struct("=HH")
_ATTACH, _DETACH = 26, 27  # SO_ATTACH_FILTER, SO_DETACH_FILTER
_INSTRUCTION = struct.Struct("=HBBI")
_NETWORK = 0xFFF00000  # SKF_NET_OFF: offsets from here count from the IP header
_LOAD_WORD, _LOAD_BYTE, _SHIFT, _IF_EQUAL, _RETURN = 0x20, 0x30, 0x74, 0x15, 0x06
_WHOLE = 0xFFFFFFFF
_LIBC = ctypes.PyDLL(None, use_errno=True)
_LIBC.opendir.restype = _LIBC.readdir.restype = ctypes.c_void_p
_LIBC.readdir.argtypes = _LIBC.closedir.argtypes = [ctypes.c_void_p]
_NAME = 19  # offset of d_name in a dirent of 64-bit Linux
_DUPLICATE = 1030  # F_DUPFD_CLOEXEC
_DATAGRAM = 1 << 17  # bytes of a netlink message, at most


@dataclass(frozen=True, slots=True)
class KernelConnection:
    """Established connection.

    Args:
      address: of the other end; an IPv4-mapped one as IPv4.
      inode: of the socket; 0: accepted by no process yet.
    """

    address: IpAddress
    port: int
    inode: int
    received: int


class KernelSockets:
    """Connections of the listener at a port of this machine.

    Raises:
      OSError: the system does not report connections.
    """

    def __init__(self, port: int) -> None:
        if not sys.platform.startswith("linux"):
            raise OSError("connections: expected Linux")
        self._port = port
        self._netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG)
        self._held = ctypes.create_string_buffer(_DATAGRAM)
        self._listeners: list[socket.socket] = []  # duplicates, from the first ban on

    def close(self) -> None:
        """Close the socket of the reports, and those of the listener."""
        for one in (self._netlink, *self._listeners):
            one.close()

    def connections(self) -> list[KernelConnection]:
        """Return all established connections."""
        return [
            KernelConnection(address, port, inode, received)
            for address, port, inode, received in self._dump(_ESTABLISHED)
        ]

    def end(self, inodes: Collection[int]) -> None:
        """Shut down connections of this process; a socket that has gone is none."""
        for descriptor in _duplicates(inodes):
            _LIBC.shutdown(descriptor, socket.SHUT_RDWR)
            _LIBC.close(descriptor)

    def reset(self, inodes: Collection[int]) -> None:
        """Reset connections of this process; nothing that they have received is read any more."""
        nowhere = ctypes.create_string_buffer(16)  # AF_UNSPEC: connect(2) ends the connection
        for descriptor in _duplicates(inodes):
            _LIBC.connect(descriptor, nowhere, len(nowhere))
            _LIBC.close(descriptor)

    def ban(self, networks: Collection[Network]) -> None:
        """Accept no connection from these networks from now on, and from all others.

        Args:
          networks: IPv4 addresses, and IPv6 networks of 64 bits.
        """
        if not self._listeners:
            listening = _duplicates({inode for _, _, inode, _ in self._dump(_LISTEN)})
            self._listeners = [socket.socket(fileno=descriptor) for descriptor in listening]
        program = _filter(networks)
        for listener in self._listeners:
            if not networks:
                with suppress(OSError):  # there was none
                    listener.setsockopt(socket.SOL_SOCKET, _DETACH, 0)
                continue
            held = ctypes.create_string_buffer(program, len(program))
            count = len(program) // _INSTRUCTION.size
            filter_ = struct.pack("@HP", count, ctypes.addressof(held))
            listener.setsockopt(socket.SOL_SOCKET, _ATTACH, filter_)

    def _dump(self, state: int) -> Iterator[tuple[IpAddress, int, int, int]]:
        for family in (socket.AF_INET, socket.AF_INET6):
            asked = _REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (_INFO - 1), 0, 1 << state)
            size = _HEADER.size + len(asked)
            message = _HEADER.pack(size, _BY_FAMILY, _DUMP, 0, 0) + asked
            _checked(_LIBC.send(self._netlink.fileno(), message, size, 0))
            yield from self._answers()

    def _answers(self) -> Iterator[tuple[IpAddress, int, int, int]]:
        held = self._held
        while True:
            size = _checked(_LIBC.recv(self._netlink.fileno(), held, len(held), 0))
            data, start = ctypes.string_at(held, size), 0
            while start < len(data):
                size, kind, *_ = _HEADER.unpack_from(data, start)
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    raise OSError("connections: the kernel does not report them")
                found = _connection(data[start + _HEADER.size : start + size], self._port)
                if found is not None:
                    yield found
                start += (size + 3) & ~3


def _connection(data: bytes, port: int) -> tuple[IpAddress, int, int, int] | None:
    """Read a message about a socket: `inet_diag_msg` and attributes; None: of another port."""
    family = data[0]
    own, other = struct.unpack_from(">HH", data, 4)
    if own != port:
        return None
    width = 4 if family == socket.AF_INET else 16
    address = ip_address(data[24 : 24 + width])
    (inode,) = struct.unpack_from("=I", data, 68)
    received, start = 0, _MESSAGE_BYTES
    while start + _ATTRIBUTE.size <= len(data):
        size, kind = _ATTRIBUTE.unpack_from(data, start)
        if kind == _INFO and size >= _ATTRIBUTE.size + _BYTES_RECEIVED + 8:
            (received,) = struct.unpack_from("=Q", data, start + _ATTRIBUTE.size + _BYTES_RECEIVED)
        start += max((size + 3) & ~3, _ATTRIBUTE.size)
    mapped = None if isinstance(address, IPv4Address) else address.ipv4_mapped
    return mapped or address, other, inode, received


def _checked(result: int) -> int:
    """Return the result of a system call; raise OSError if it has failed."""
    if result < 0:
        raise OSError(ctypes.get_errno(), "connections: the kernel does not report them")
    return result


def _duplicates(inodes: Collection[int]) -> list[int]:
    """Return a duplicate of every socket of this process that has one of these inodes."""
    wanted = {b"socket:[%d]" % inode for inode in inodes if inode}
    found: list[int] = []
    if not wanted:
        return found
    held = ctypes.create_string_buffer(64)

    def named(descriptor: bytes) -> bool:
        size = _LIBC.readlink(b"/proc/self/fd/" + descriptor, held, len(held))
        return size > 0 and held.raw[:size] in wanted

    folder = _LIBC.opendir(b"/proc/self/fd")
    while folder and (entry := _LIBC.readdir(folder)):
        name = ctypes.string_at(entry + _NAME)
        if not named(name):
            continue
        duplicate = _LIBC.fcntl(int(name), _DUPLICATE, 0)
        if duplicate >= 0 and named(b"%d" % duplicate):  # or it is another file by now
            found.append(duplicate)
        elif duplicate >= 0:
            _LIBC.close(duplicate)
    if folder:
        _LIBC.closedir(folder)
    return found


def _filter(networks: Collection[Network]) -> bytes:
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
