"""Greets the store at a port of loopback as a client without secret does, asks
for a key, and says whether there is an answer."""

import hashlib
import hmac
import os
import socket
import sys

HELLO = b"ARGOSY KV 0002\r\n\r\n"
KEY = hmac.digest(bytes(32), b"argosy store greeting", hashlib.sha256)

with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=20) as server:
    nonce = os.urandom(32)
    server.sendall(HELLO + b"o" + nonce)
    stream = server.makefile("rb")
    answer = stream.read(len(HELLO) + 1 + 32 + 8 + 32)
    said = b"oo" + nonce + answer[len(HELLO) + 1 : -32]
    assert answer[-32:] == hmac.digest(KEY, b"server" + HELLO + said, hashlib.sha256)
    server.sendall(hmac.digest(KEY, b"client" + HELLO + said, hashlib.sha256))
    get = b"\x02\x01\x00\x00\x00k"
    server.sendall(len(get).to_bytes(4, "little") + get)
    try:
        print("answered" if stream.read(5) else "closed")
    except ConnectionResetError:
        print("closed")
