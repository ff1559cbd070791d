"""For benches in Python that use each other: their names have no ending."""
import importlib.machinery
import importlib.util
import pathlib

HERE = pathlib.Path(__file__).resolve().parent


def import_bench(name):
    loader = importlib.machinery.SourceFileLoader(name, str(HERE / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module
