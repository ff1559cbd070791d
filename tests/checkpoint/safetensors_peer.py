"""Prints a safetensors file, read by its definition with Python's own modules.

usage: safetensors_peer.py FILE"""
import json
import struct
import sys

LETTERS = {"F32": "f", "F64": "d", "I64": "q", "U8": "B", "I32": "i"}


def no_duplicates(pairs):
    names = [name for name, _ in pairs]
    assert len(names) == len(set(names)), "a name twice"
    return dict(pairs)


def main():
    data = open(sys.argv[1], "rb").read()
    (size,) = struct.unpack_from("<Q", data)
    assert data[8:9] == b"{" and size <= 100_000_000
    header = json.loads(data[8:8 + size].decode("utf-8"), object_pairs_hook=no_duplicates)
    payload = data[8 + size:]
    for key, value in sorted(header.pop("__metadata__", {}).items()):
        assert isinstance(value, str)
        print(f"metadata {key}={value}")
    end = 0
    for name, tensor in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        assert tensor["data_offsets"][0] == end, "a gap or an overlap"
        end = tensor["data_offsets"][1]
    assert end == len(payload), "the file has another size"
    for name, tensor in sorted(header.items()):
        begin, end = tensor["data_offsets"]
        letter = LETTERS[tensor["dtype"]]
        count = (end - begin) // struct.calcsize(letter)
        expected = 1
        for dim in tensor["shape"]:
            expected *= dim
        assert count == expected
        numbers = struct.unpack_from(f"<{count}{letter}", payload, begin) if count < 100 else ()
        print(f"{name} {tensor['dtype']} {tensor['shape']} {' '.join(map(str, numbers))}")


main()
