"""As much of PyTorch as the hook touches, without tensors: the order of hooks is PyTorch's. For tests of the hook only."""

import collections
import itertools
import os
import sys
import types

__version__ = "2.0+stub"


def _module(name, **content):
    made = types.ModuleType("torch." + name)
    made.__dict__.update(content)
    sys.modules["torch." + name] = made
    owner, _, last = ("torch." + name).rpartition(".")
    setattr(sys.modules[owner], last, made)
    return made


_grad = [True]


def is_grad_enabled():
    return _grad[0]


class no_grad:
    def __enter__(self):
        _grad[0] = False

    def __exit__(self, *_):
        _grad[0] = True


_compiling = [False]
_module("compiler", is_compiling=lambda: _compiling[0])


class _Handle:
    def __init__(self, hooks):
        self.hooks, self.key = hooks, next(_keys)

    def remove(self):
        self.hooks.pop(self.key, None)


_keys = itertools.count()
_pre, _post = collections.OrderedDict(), collections.OrderedDict()


def _register(hooks, hook):
    handle = _Handle(hooks)
    hooks[handle.key] = hook
    return handle


class Module:
    def __init__(self):
        self.training = True
        self._forward_pre_hooks, self._forward_hooks = collections.OrderedDict(), collections.OrderedDict()
        self._always = {}

    def register_forward_hook(self, hook, *, always_call=False):
        handle = _register(self._forward_hooks, hook)
        if always_call:
            self._always[handle.key] = True
        return handle

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, part in list(vars(self).items()):
            if isinstance(part, Module):
                yield from part.named_modules(prefix + "." + name if prefix else name)

    def __call__(self, *args, **kwargs):
        if not (self._forward_hooks or self._forward_pre_hooks or _pre or _post):
            return self.forward(*args, **kwargs)
        called, result = set(), None
        try:
            for _, hook in (*_pre.items(), *self._forward_pre_hooks.items()):
                hook(self, args)
            result = self.forward(*args, **kwargs)
            if _post or self._forward_hooks:
                for key, hook in (*_post.items(), *self._forward_hooks.items()):
                    if key in self._always:
                        called.add(key)
                    hook(self, args, result)
            return result
        except Exception:
            for key, hook in self._forward_hooks.items():
                if key in self._always and key not in called:
                    hook(self, args, result)
            raise


_module("nn", Module=Module)
_module("nn.modules")
_module(
    "nn.modules.module",
    register_module_forward_pre_hook=lambda hook: _register(_pre, hook),
    register_module_forward_hook=lambda hook: _register(_post, hook),
)


class _Loss(Module):
    pass


_module("nn.modules.loss", _Loss=_Loss)


class Tensor:
    def backward(self, *args):
        sys.modules["torch"].autograd.backward(self)


_module("autograd", backward=lambda *_: None)
_before, _after = collections.OrderedDict(), collections.OrderedDict()


class Optimizer:
    def step(self, closure=None):
        for hook in list(_before.values()):
            hook(self, (), {})
        if closure:
            closure()
        for hook in list(_after.values()):
            hook(self, (), {})

    def zero_grad(self, set_to_none=True):
        pass


_module("optim")
_module(
    "optim.optimizer",
    Optimizer=Optimizer,
    register_optimizer_step_pre_hook=lambda hook: _register(_before, hook),
    register_optimizer_step_post_hook=lambda hook: _register(_after, hook),
)


class _BaseDataLoaderIter:
    def __init__(self, items):
        self.items = iter(items)

    def __next__(self):
        return next(self.items)


_module("utils")
_module("utils.data")
_module("utils.data.dataloader", _BaseDataLoaderIter=_BaseDataLoaderIter)

_observers = []
_module("_C", _cuda_attach_out_of_memory_observer=_observers.append)
_module("cuda", _lazy_call=lambda call: call())
_module("cuda.memory", _snapshot=lambda: {"segments": [], "device_traces": []})
_module("distributed", is_available=lambda: True, is_initialized=lambda: "STUB_RANK" in os.environ, get_rank=lambda: int(os.environ["STUB_RANK"]))

if os.environ.get("STUB_BROKEN"):
    del sys.modules["torch.optim.optimizer"], sys.modules["torch.nn.modules.module"]
    del Tensor.backward
