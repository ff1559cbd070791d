#!/usr/bin/python3
"""How long ranks of one host take to meet: with a secret as all jobs of `argosy
run` have it, without one, and with mutual TLS. Medians, interleaved. --quick,
--json as all benches."""
import json
import os
import pathlib
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile

RANK = pathlib.Path(__file__).resolve().parent / "meet_rank"


def certificate(folder):
    """One certificate for all ranks, signed by an authority; its variables."""
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    for command in (
        ["req", "-x509", *key, "-subj", "/CN=authority", "-days", "2", "-keyout", "ca.key", "-out", "ca.pem"],
        ["req", *key, "-subj", "/O=rank", "-keyout", "rank.key", "-out", "rank.csr"],
        ["x509", "-req", "-in", "rank.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
         "-days", "2", "-out", "rank.pem"],
    ):
        subprocess.run(["openssl", *command], cwd=folder, check=True, stderr=subprocess.DEVNULL)
    names = {"ARGOSY_TLS_CERT": "rank.pem", "ARGOSY_TLS_KEY": "rank.key", "ARGOSY_TLS_CA": "ca.pem"}
    return {name: str(folder / file) for name, file in names.items()}


def ways_of(folder):
    file = folder / "secret"
    file.write_text(secrets.token_hex(32))
    file.chmod(0o600)
    secret = {"ARGOSY_SECRET_FILE": str(file)}
    return {"ours": secret, "also without a secret": {}, "also with secret and TLS": {**secret, **certificate(folder)}}


def run_job(size, variables):
    """From the last main() to the end of the first barrier, in ms."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    job = {**os.environ, **variables, "OMP_NUM_THREADS": "1", "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size),
           "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [subprocess.Popen([RANK], env={**job, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                              stdout=subprocess.PIPE, text=True) for rank in range(size)]
    lines = [rank.communicate(timeout=60)[0].split() for rank in ranks]
    if any(rank.returncode != 0 for rank in ranks):
        sys.exit("meet: a rank failed")
    begins, ends = zip(*((int(begin), int(end)) for begin, end in lines))
    return (max(ends) - max(begins)) / 1e6


def row_of(size, rounds, ways):
    times = {name: [] for name in ways}
    for _ in range(rounds):
        for name, variables in ways.items():
            times[name].append(run_job(size, variables))
    return {"what": f"{size} ranks, the last main() to the end of a first barrier", "unit": "ms",
            **{name: statistics.median(each) for name, each in times.items()}}


def main():
    rounds = 7 if "--quick" in sys.argv else 21
    with tempfile.TemporaryDirectory() as folder:
        ways = ways_of(pathlib.Path(folder))
        rows = [row_of(size, rounds, ways) for size in (2, 4)]
    if "--json" in sys.argv:
        print(json.dumps({"subject": "meet", "rows": rows}, indent=2))
    else:
        for row in rows:
            print(row["what"])
            for name, value in row.items():
                if name not in ("what", "unit"):
                    print(f"  {name.removeprefix('also '):24} {value:8.2f} {row['unit']}")


if __name__ == "__main__":
    main()
