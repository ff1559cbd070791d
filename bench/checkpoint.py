#!/usr/bin/python3
"""Checkpoints beside what disk, page cache and memory give alone, in turn, with two
processes. --dcp COMMAND measures PyTorch's DCP too: a command that runs a Python
with PyTorch 2.6 or later, as "chroot /srv/debian13 python3", and sees --folder
at the same path. --quick, --json as all benches."""
import argparse
import json
import os
import pathlib
import shlex
import shutil
import socket
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def run_ours(ranks, *args):
    command = [os.environ.get("ARGOSY_COMMAND", "argosy"), "run", "-n", str(ranks), "--",
               str(HERE / "checkpoint_rank"), *map(str, args)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1"}).stdout


def run_dcp(python, folder, megabytes, rounds):
    script = folder / "checkpoint_peer.py"
    shutil.copy(HERE / "checkpoint_peer.py", script)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [subprocess.Popen(
        [*shlex.split(python), str(script), str(folder), str(megabytes), str(rounds)],
        stdout=subprocess.PIPE, text=True,
        env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
             "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
             "USE_LIBUV": "0"}) for rank in range(2)]
    try:
        output = ranks[0].communicate(timeout=120)[0]
        end_follower(ranks[1])
    finally:
        for rank in ranks:
            rank.kill()
    if ranks[0].returncode:
        raise SystemExit("the ranks of DCP failed")
    return output


def end_follower(rank):
    """Rank 0 has printed all there is; after that rank 1 may wait for ever in
    Gloo for a rank that has left."""
    try:
        rank.communicate(timeout=5)
    except subprocess.TimeoutExpired:
        rank.kill()
        rank.communicate()


def best_of(texts):
    """The best GB/s of each name."""
    best = {}
    for line in "".join(texts).splitlines():
        name, seconds, size = line.split()
        best[name] = max(best.get(name, 0), float(size) / float(seconds) / 1e9)
    return best


def size_of(args):
    return (256, 2) if args.quick else (512, 3)


def measure(args, folder):
    megabytes, rounds = size_of(args)
    texts = []
    for turn in range(1 if args.quick else 3):
        place = folder / str(turn)
        place.mkdir()
        texts.append(run_ours(2, "save", place, megabytes, rounds))
        texts.append(run_ours(2, "load", place, megabytes, rounds))
        texts.append(run_ours(2, "cold", place, megabytes, 1))
        if args.dcp:
            texts.append(run_dcp(args.dcp, folder, megabytes, rounds))
        shutil.rmtree(place)
    best = best_of(texts)
    # From 8 ranks to 3, and from 3 to 3.
    for name, ranks in (("resharded", 8), ("same", 3)):
        place = folder / name
        place.mkdir()
        run_ours(ranks, "save", place, megabytes, 1)
        best[name] = best_of([run_ours(3, "load", place, megabytes, rounds)])["load"]
    return best


def row(text, value, unit="GB/s", **peers):
    result = {"what": text, "unit": unit, "ours": value}
    print(f"{text:44} {value:8.2f} {unit}", end="")
    for name, peer in peers.items():
        if peer:
            result |= {name: peer, f"ratio_{name}": value / peer}
            print(f"  {name} {peer:.2f} ({value / peer:.2f} x)", end="")
    print()
    return result


def rows_of(best):
    """Verifying first can at best read and hash all bytes, and then read them."""
    verified = 1 / (1 / best["verify"] + 1 / best["cache"])
    rows = [
        row("save, synced to disk", best["save"], disk=best["disk"], dcp=best.get("dcp_save")),
        row("load from the disk, verified first", best["cold_load"], disk=best["cold"],
            buffered=best["cold_buffered"]),
        row("load from the disk, in place", best["cold_load_in_place"], disk=best["cold"],
            buffered=best["cold_buffered"]),
        row("load from the page cache, verified first", best["load"], cache=best["cache"],
            limit=verified, dcp=best.get("dcp_load")),
        row("load from the page cache, in place", best["load_in_place"], cache=best["cache"],
            dcp=best.get("dcp_load")),
        row("state / stall of an asynchronous save", best["stall"], memcpy=best["memcpy"]),
        row("steps beside an asynchronous save", best["step_beside"], step_alone=best["step"]),
        row("load of 8 ranks' checkpoint on 3", best["resharded"], load_3_to_3=best["same"]),
    ]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--dcp", help="command that runs a Python with PyTorch 2.6")
    parser.add_argument("--folder", type=pathlib.Path, help="on the disk to measure")
    args = parser.parse_args()
    if args.folder:
        args.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.folder or ".") as folder:
        rows = rows_of(measure(args, pathlib.Path(folder)))
    if args.json:
        print(json.dumps({"subject": "checkpoint", "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
