"""Stands in for a package that PyTorch's tests import and Debian lacks. The
tests of torch.distributed use nothing of it but the names."""
import unittest

ACCEPT = False


class TestCase(unittest.TestCase):
    pass
