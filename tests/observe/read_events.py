#!/usr/bin/env python3
"""Reads a TensorBoard event file by the description of its format alone.

usage: read_events.py FILE

Prints a line for each event: the file's version, or step, tag and value.
Fails on a wrong checksum, a torn record, or a field that is not expected.
"""
import struct
import sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def check(data, stored):
    crc = crc32c(data)
    masked = (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
    if masked != stored:
        raise ValueError(f"checksum {stored:#x}, expected {masked:#x}")


def records(data):
    at = 0
    while at < len(data):
        length, length_crc = struct.unpack_from("<QI", data, at)
        check(data[at:at + 8], length_crc)
        at += 12
        body = data[at:at + length]
        if len(body) != length:
            raise ValueError("torn record")
        (body_crc,) = struct.unpack_from("<I", data, at + length)
        check(body, body_crc)
        at += length + 4
        yield body


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return value, at


def fields(data):
    """The fields of a message as {number: value}; each at most once."""
    found = {}
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, wire = key >> 3, key & 7
        if number in found:
            raise ValueError(f"field {number} twice")
        if wire == 0:
            found[number], at = varint(data, at)
        elif wire == 1:
            found[number], at = struct.unpack_from("<d", data, at)[0], at + 8
        elif wire == 5:
            found[number], at = struct.unpack_from("<f", data, at)[0], at + 4
        elif wire == 2:
            size, at = varint(data, at)
            found[number], at = data[at:at + size], at + size
        else:
            raise ValueError(f"wire type {wire}")
    return found


def text_of(event):
    time = event.pop(1)
    if not 1e9 < time < 1e11:
        raise ValueError(f"wall time {time}")
    if set(event) == {3}:
        return f"version {event[3].decode()}"
    if set(event) != {2, 5}:
        raise ValueError(f"fields {sorted(event)}")
    step = event[2] - (1 << 64) if event[2] >> 63 else event[2]
    value = fields(fields(event[5])[1])
    if set(value) != {1, 2}:
        raise ValueError(f"fields of a value {sorted(value)}")
    return f"{step} {value[1].decode()} {value[2]!r}"


def main():
    with open(sys.argv[1], "rb") as file:
        for body in records(file.read()):
            print(text_of(fields(body)))


if __name__ == "__main__":
    main()
