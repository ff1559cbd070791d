"""usage: pytorch_losses.py MODEL FILE
Trains a model of bench/data_parallel.py in one process of PyTorch, from the
weights and on the batches of FILE, and prints the loss of each step."""
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import data_parallel  # noqa: E402

MAKE = {
    "gpt": lambda: data_parallel.make_gpt(width=16, layers=2, heads=4, vocab=13, context=8),
    "cnn": data_parallel.make_cnn,
    "mlp": lambda: data_parallel.make_mlp(width=16),
}


def main(what, path):
    torch.set_num_threads(1)
    tensors = torch.load(path)
    net = MAKE[what]().double()
    net.load_state_dict({name[len("weight:"):]: tensor
                         for name, tensor in tensors.items() if name.startswith("weight:")})
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for x, target in zip(tensors["inputs"], tensors["targets"]):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x).flatten(0, -2), target.flatten())
        loss.backward()
        optimizer.step()
        print(repr(loss.item()))


main(*sys.argv[1:])
