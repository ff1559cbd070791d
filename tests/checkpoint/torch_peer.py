"""Files of torch.save, written and read by PyTorch itself.

usage: torch_peer.py write DIR        files that the test imports
       torch_peer.py read FILE        prints a dict of tensors, nested or not"""
import sys
import zipfile

import torch


def counting(*shape, start=0, dtype=torch.float32):
    count = 1
    for size in shape:
        count *= size
    return (torch.arange(count) + start).to(dtype).view(shape)


def make_model():
    model = torch.nn.Sequential()
    model.add_module("fc", torch.nn.Linear(3, 2))
    model.add_module("bn", torch.nn.BatchNorm1d(2))
    model.add_module("out", torch.nn.Linear(2, 4, bias=False))
    return model


def deflate(source, target):
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))


def write(folder):
    torch.manual_seed(0)
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
    model(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    with torch.no_grad():
        for i, value in enumerate(model.state_dict().values()):
            value.copy_(counting(*value.shape, start=10 * i, dtype=value.dtype))
    torch.save(model.state_dict(), folder + "/state_dict.pt")
    torch.save(model.state_dict(), folder + "/legacy.pt", _use_new_zipfile_serialization=False)
    torch.save(model.state_dict(), folder + "/protocol4.pt", pickle_protocol=4)
    deflate(folder + "/state_dict.pt", folder + "/deflated.pt")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 12,
                "parameter": torch.nn.Parameter(counting(2, start=5)), "flags": {"a", "b"}}, folder + "/training.pt")
    torch.save(optimizer.state_dict(), folder + "/optimizer.pt")
    torch.save(model, folder + "/whole_model.pt")
    whole = counting(300, 200)
    torch.save({"transposed": whole.t(), "row": whole[1], "columns": whole[:, 1::2], "expanded": counting(1).expand(2, 3),
                "half": whole.half(), "empty": torch.zeros(0, 3), "scalar": torch.tensor(7.0),
                "channels_last": counting(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)},
               folder + "/views.pt")


def lines(value, path):
    if isinstance(value, dict):
        for key in sorted(value):
            yield from lines(value[key], path + [key])
    elif isinstance(value, torch.Tensor):
        numbers = " ".join(str(x) for x in value.reshape(-1).tolist())
        yield f"{'/'.join(path)} {str(value.dtype)[6:]} {list(value.shape)} {numbers}"
    else:
        yield f"{'/'.join(path)} {value}"


def read(path):
    for line in lines(torch.load(path, weights_only=True), []):
        print(line)


{"write": write, "read": read}[sys.argv[1]](sys.argv[2])
