"""A training on the stub of torch; each argument is a variant. Exit code 0 = the job saw nothing of the hook."""

import copy
import ctypes
import os
import pickle
import sys

VARIANT = sys.argv[1] if len(sys.argv) > 1 else "plain"
assert "torch" not in sys.modules, "the hook must not import torch"
assert not any("hookdir" in entry for entry in sys.path), sys.path


def driver():
    """One allocation, so that there is a ring."""
    address = ctypes.c_uint64()
    cuda = ctypes.CDLL("libcuda.so.1")
    pointer = ctypes.CDLL(None).dlsym
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]
    alloc = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)(pointer(cuda._handle, b"cuMemAlloc_v2"))
    assert alloc(ctypes.addressof(address), 1 << 20) == 0


import torch  # noqa: E402

assert type(torch.__spec__.loader).__name__ == "SourceFileLoader" and torch.__loader__ is torch.__spec__.loader
driver()


class Inner(torch.nn.Module):
    def forward(self, x):
        return x + 1


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Inner(), Inner()

    def forward(self, x):
        if x == "fail":
            raise ValueError("as wanted")
        return self.second(self.first(x))


class Loss(torch.nn.modules.loss._Loss):
    def forward(self, x):
        return torch.Tensor()


model, loss_of, optimizer = Model(), Loss(), torch.optim.optimizer.Optimizer()
data = torch.utils.data.dataloader._BaseDataLoaderIter(range(100))
for step in range(3):
    x = next(data)
    if VARIANT == "fails" and step in (0, 2):
        try:
            model("fail")
            raise SystemExit("no exception")
        except ValueError as error:
            assert str(error) == "as wanted"
    torch._compiling[0] = VARIANT == "compiling" and step == 0
    if VARIANT == "closure":
        optimizer.step(lambda: loss_of(model(x)).backward())
    elif VARIANT == "broken":
        torch.autograd.backward(loss_of(model(x)))
        optimizer.step()
    else:
        loss_of(model(x)).backward()
        optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        model.training = False
        assert model(1) == 3
        model.training = True
assert not torch._pre and not torch._post or os.environ.get("VRAMSCOPE_MODULES"), "a global hook is left"
assert not model._forward_hooks and not model._forward_pre_hooks, "a hook of the module is left"
pickle.loads(pickle.dumps(model))
assert copy.deepcopy(model)(1) == 3
if VARIANT == "oom":
    for _ in range(5):
        torch._observers[0](0, 1, 2, 3)
