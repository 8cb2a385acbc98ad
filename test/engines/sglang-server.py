"""Starts SGLang as it was published, on the processor, with PyTorch in the place of its kernels.

usage: sglang-server.py FOLDER [OPTION OF SGLANG]...
       sglang-server.py FOLDER --describe [OPTION OF SGLANG]...

FOLDER is where the package is installed. The second form prints the page /server_info of such a server, without starting
it. Packages of kernels that need a GPU, and those that a model of text does not
use, become empty modules: SGLang imports them, and takes its own implementations in PyTorch. Every process of SGLang runs
this file first.
"""

import importlib.abc
import importlib.machinery
import json
import sys
import types
from unittest.mock import MagicMock

EMPTY = {"IPython", "cutlass", "decord", "flashinfer", "gguf", "quack", "sgl_kernel", "soundfile", "tilelang", "timm"}


class EmptyModule(types.ModuleType):
    """A module with any attribute that is asked for."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, MagicMock(name=f"{self.__name__}.{name}"))
        return self.__dict__[name]


class EmptyModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in EMPTY:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return EmptyModule(spec.name)

    def exec_module(self, module):
        pass


sys.path.insert(0, sys.argv[1])
sys.meta_path.append(EmptyModules())
# SGLang imports it where it is there, as in the environment whose PyTorch it shares here.
sys.modules["vllm"] = None

def describe(server_args):
    from sglang.srt.utils.common import build_server_info

    server_args.resolve_once()
    print(json.dumps(build_server_info(server_args, {}), default=str))


if __name__ == "__main__":
    from sglang.srt.server_args import prepare_server_args

    options = sys.argv[2:]
    if options[:1] == ["--describe"]:
        describe(prepare_server_args(options[1:]))
    else:
        from sglang.srt.entrypoints.http_server import launch_server

        launch_server(prepare_server_args(options))
