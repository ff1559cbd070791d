"""Token files by the other side: the layouts, packed with struct.

usage: token_files.py write DIR            a file of each kind
       token_files.py read-megatron PREFIX  prints what it holds
       token_files.py read-nanogpt FILE"""
import struct
import sys

MEGATRON_CODES = {1: "B", 2: "b", 3: "h", 4: "i", 5: "q", 8: "H"}
DOCUMENTS = [[[1, 2, 3], [4]], [[5, 6, 7, 8, 9]], [[], [100]]]


def write_megatron(prefix, code, modes=b""):
    sequences = [sequence for document in DOCUMENTS for sequence in document]
    width = struct.calcsize(MEGATRON_CODES[code])
    bounds, offsets, place = [0], [], 0
    for document in DOCUMENTS:
        bounds.append(bounds[-1] + len(document))
    for sequence in sequences:
        offsets.append(place * width)
        place += len(sequence)
    with open(prefix + ".bin", "wb") as out:
        for sequence in sequences:
            out.write(struct.pack(f"<{len(sequence)}{MEGATRON_CODES[code]}", *sequence))
    with open(prefix + ".idx", "wb") as out:
        out.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, code, len(sequences), len(bounds)))
        out.write(struct.pack(f"<{len(sequences)}i", *map(len, sequences)))
        out.write(struct.pack(f"<{len(sequences)}q", *offsets))
        out.write(struct.pack(f"<{len(bounds)}q", *bounds) + modes)


def write_llmc(path, magic, version, letter, tokens):
    with open(path, "wb") as out:
        out.write(struct.pack("<256i", magic, version, len(tokens), *[0] * 253))
        out.write(struct.pack(f"<{len(tokens)}{letter}", *tokens))


def write(folder):
    for code in MEGATRON_CODES:
        write_megatron(f"{folder}/megatron{code}", code)
    write_megatron(f"{folder}/modes", 8, modes=bytes(5))
    write_llmc(f"{folder}/gpt2.bin", 20240520, 1, "H", [50256, 0, 65535])
    write_llmc(f"{folder}/llama3.bin", 20240801, 7, "I", [128000, 0, 4294967295])
    with open(f"{folder}/nanogpt.bin", "wb") as out:
        out.write(struct.pack("<4H", 7, 0, 50256, 65535))


def read_megatron(prefix):
    index = open(prefix + ".idx", "rb").read()
    tokens = open(prefix + ".bin", "rb").read()
    assert index[:9] == b"MMIDIDX\x00\x00"
    version, code, num_sequences, num_bounds = struct.unpack_from("<QBQQ", index, 9)
    assert version == 1
    lengths = struct.unpack_from(f"<{num_sequences}i", index, 34)
    offsets = struct.unpack_from(f"<{num_sequences}q", index, 34 + 4 * num_sequences)
    bounds = struct.unpack_from(f"<{num_bounds}q", index, 34 + 12 * num_sequences)
    assert len(index) == 34 + 12 * num_sequences + 8 * num_bounds
    letter = MEGATRON_CODES[code]
    sequences = [list(struct.unpack_from(f"<{n}{letter}", tokens, at))
                 for n, at in zip(lengths, offsets)]
    assert len(tokens) == sum(lengths) * struct.calcsize(letter)
    print(code, [sequences[a:b] for a, b in zip(bounds, bounds[1:])])


def read_nanogpt(path):
    data = open(path, "rb").read()
    print(*struct.unpack(f"<{len(data) // 2}H", data))


{"write": write, "read-megatron": read_megatron, "read-nanogpt": read_nanogpt}[sys.argv[1]](sys.argv[2])
