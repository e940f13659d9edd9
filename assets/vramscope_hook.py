"""Marks the phases of a PyTorch training for vramscope, without a change to the training's code.

`vramscope run` puts this file, under the name `sitecustomize.py`, first on PYTHONPATH, so every Python of the job loads it at start.
It then runs the job's own `sitecustomize`, if there is one, and waits for somebody else to import torch; it imports nothing of torch
itself. What it does with torch is plain Python around public entry points:

* the outermost module calls of the first step are found with a global forward pre-hook, which is taken away while such a module runs
  and for good after the first step; later steps pay for one call more around each of these modules, nothing inside them. The call is
  wrapped in the module's class, not as a hook of the module: those would be saved with it when it is pickled;
* `optimizer` and `zero_grad` come from PyTorch's global optimizer hooks, `backward` from `Tensor.backward` and `autograd.backward`, `data`
  from the data loader's iterator;
* code that is being compiled is left alone.

Marks go to the preloaded library through its exported function. If that is not there, or anything fails, this file steps aside: the
job goes on as if it had never been loaded.

Environment: VRAMSCOPE_RING_DIR (set by vramscope; without it nothing happens), VRAMSCOPE_SNAPSHOT_DIR (where snapshots go; default: the
ring's folder), VRAMSCOPE_HISTORY=N (record allocation stacks of the last N events: 20 to 40 % of a host-bound step),
VRAMSCOPE_MODULES=1 (a span for every module call: 4 to 8 % of a host-bound step).
"""

import os
import sys

_OUTERMOST_CALLS = 256  # outermost calls after which the search ends in a program that has no optimizer
_OOM_SNAPSHOTS = 3


class _TorchWatch:
    """Stands first on sys.meta_path until torch is imported, and tells when that is done."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        try:
            sys.meta_path.remove(self)
        except ValueError:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


class _Loader:
    """Loads torch exactly as its own loader does, then installs the marks."""

    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        try:
            _Marks(module).install()
        except Exception:  # whatever it was, the job does not care
            pass


def _library():
    """The preloaded library's functions; None if it is not there or does not write."""
    import ctypes

    library = ctypes.PyDLL(None)
    try:
        library.vramscope_mark.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]
        library.vramscope_mark.restype = None
        library.vramscope_snapshots_asked.restype = ctypes.c_uint64
        library.vramscope_rank.argtypes = [ctypes.c_uint32]
        return library if library.vramscope_active() else None
    except AttributeError:
        return None


class _Marks:
    """Everything that is kept about one torch."""

    def __init__(self, torch):
        import threading

        self.torch = torch
        self.library = _library()
        self.local = threading.local()
        self.roots = {}  # id -> weak reference
        self.classes = set()
        self.search = None
        self.remains = []
        self.outermost_calls = 0
        self.steps = 0
        self.stepper = None
        self.snapshots = 0
        self.ooms = 0
        compiler = getattr(torch, "compiler", None)
        self.compiling = getattr(compiler, "is_compiling", None) or (lambda: False)

    def install(self):
        if self.library is None:
            return
        self.snapshots = self.library.vramscope_snapshots_asked()
        for part in (self._backward, self._optimizer, self._data, self._forward, self._memory):
            try:
                part()
            except Exception:  # an older or newer torch: this part stays unmarked
                pass

    # Spans. A span inside one of the same name is part of it.

    def begin(self, name):
        open_spans = self.local.__dict__.setdefault("spans", [])
        if name in open_spans:
            return False
        open_spans.append(name)
        self.library.vramscope_mark(1, name, len(name))
        return True

    def end(self, name):
        open_spans = self.local.__dict__.get("spans", ())
        if open_spans and open_spans[-1] == name:
            open_spans.pop()
            self.library.vramscope_mark(2, name, len(name))

    def around(self, owner, attribute, name):
        """Puts a span around a function of a class or module."""
        import functools

        original = getattr(owner, attribute)
        begin, end, compiling = self.begin, self.end, self.compiling

        @functools.wraps(original)
        def marked(*args, **kwargs):
            if compiling() or not begin(name):
                return original(*args, **kwargs)
            try:
                return original(*args, **kwargs)
            finally:
                end(name)

        setattr(owner, attribute, marked)

    def _backward(self):
        self.around(self.torch.autograd, "backward", b"backward")
        self.around(self.torch.Tensor, "backward", b"backward")

    def _data(self):
        loader = sys.modules.get("torch.utils.data.dataloader")
        if loader is not None:
            self.around(loader._BaseDataLoaderIter, "__next__", b"data")

    # The optimizer, and with it steps.

    def _optimizer(self):
        optimizer = sys.modules["torch.optim.optimizer"]
        self.around(optimizer.Optimizer, "zero_grad", b"zero_grad")

        def before(*_):
            if not self.compiling():
                self.begin(b"optimizer")

        def after(this, *_):
            if self.compiling():
                return
            self.end(b"optimizer")
            if self.stepper is None:
                self.stepper = id(this)
            if self.stepper == id(this):
                self.step_ended()

        optimizer.register_optimizer_step_pre_hook(before)
        optimizer.register_optimizer_step_post_hook(after)

    def step_ended(self):
        """The first optimizer that ever stepped did so again: that is a step, however many optimizers there are."""
        text = b"step %d" % self.steps
        self.library.vramscope_mark(0, text, len(text))
        if self.steps == 0:
            self.end_search()
            self.tell_rank()
        self.steps += 1
        asked = self.library.vramscope_snapshots_asked()
        if asked != self.snapshots:
            self.snapshots = asked
            self.save("asked-%d" % asked)

    def tell_rank(self):
        try:
            distributed = self.torch.distributed
            if distributed.is_available() and distributed.is_initialized():
                self.library.vramscope_rank(distributed.get_rank())
        except Exception:
            pass

    # Forward calls of the outermost modules.

    def _forward(self):
        module = sys.modules["torch.nn.modules.module"]
        if os.environ.get("VRAMSCOPE_MODULES") == "1":
            self._every_module(module)

        def seen(this, _):
            if not self.compiling():
                self.found(this)

        self.register = lambda: module.register_module_forward_pre_hook(seen)
        # A compiled module warns of global hooks. This one is gone before it could matter.
        import warnings

        warnings.filterwarnings("ignore", message=".*there are global hooks on modules.*", category=UserWarning)
        self.search = self.register()

    def end_search(self):
        search, self.search, self.register = self.search, None, None
        if search is not None:
            search.remove()
        while self.remains:
            self.remains.pop().remove()

    def found(self, module):
        """An outermost module has begun its first call; what marks its later ones comes too late for this one."""
        self.outermost_calls += 1
        if self.outermost_calls > _OUTERMOST_CALLS:
            self.end_search()
        if id(module) in self.roots or self.local.__dict__.get("inside"):
            return
        while self.remains:
            self.remains.pop().remove()
        try:
            import weakref

            key = id(module)
            self.roots[key] = weakref.ref(module, lambda _: self.roots.pop(key, None))
            self.wrap(type(module))
            self.mark_this_call(module)
        except Exception:
            pass

    def mark_this_call(self, module):
        """A hook of the module for as long as this one call lasts."""
        running = []

        def done(this, inputs, result):
            if running:
                self.leave(running.pop())
            # After an exception torch is still going through the hooks.
            if result is not None:
                handle.remove()

        try:
            handle = module.register_forward_hook(done, always_call=True)
        except TypeError:  # before torch 2.1
            handle = module.register_forward_hook(done)
        self.remains.append(handle)
        running.append(self.enter(module))

    def wrap(self, kind):
        """Puts spans around calls of roots of this class. `super` leaves later changes of the class's bases in force."""
        if kind in self.classes:
            return
        own = kind.__dict__.get("__call__")
        roots, compiling, local, enter, leave = self.roots, self.compiling, self.local, self.enter, self.leave

        def __call__(this, *args, **kwargs):
            if compiling() or id(this) not in roots or local.__dict__.get("inside"):
                return own(this, *args, **kwargs) if own else super(kind, this).__call__(*args, **kwargs)
            name = enter(this)
            try:
                return own(this, *args, **kwargs) if own else super(kind, this).__call__(*args, **kwargs)
            finally:
                leave(name)

        kind.__call__ = __call__
        self.classes.add(kind)

    def enter(self, module):
        self.local.inside = True
        search = self.search
        if search is not None:
            search.remove()
        torch = self.torch
        if isinstance(module, torch.nn.modules.loss._Loss):
            name = b"loss"
        elif torch.is_grad_enabled() and getattr(module, "training", True):
            name = b"forward"
        else:
            name = b"validation"
        self.begin(name)
        return name

    def leave(self, name):
        self.local.inside = False
        self.end(name)
        if self.search is not None:
            self.search = self.register()

    def _every_module(self, module):
        """A span for every module call, named by its path in the root that is running."""
        paths = {}

        def name_of(this):
            if id(this) not in paths:
                paths.update((id(part), path.encode() or b"(root)") for path, part in this.named_modules())
            return paths[id(this)]

        def before(this, _):
            if not self.compiling():
                name = name_of(this)
                self.library.vramscope_mark(1, name, len(name))

        def after(this, *_):
            if not self.compiling():
                name = name_of(this)
                self.library.vramscope_mark(2, name, len(name))

        module.register_module_forward_pre_hook(before)
        module.register_module_forward_hook(after)

    # PyTorch's own snapshots.

    def _memory(self):
        torch = self.torch
        attach = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
        if attach is None:
            return

        def out_of_memory(*_):
            self.ooms += 1
            if self.ooms <= _OOM_SNAPSHOTS:
                self.save("oom-%d" % self.ooms)

        def when_cuda_starts():
            try:
                attach(out_of_memory)
                entries = int(os.environ.get("VRAMSCOPE_HISTORY") or 0)
                if entries > 0:
                    torch.cuda.memory._record_memory_history(max_entries=entries)
            except Exception:
                pass

        torch.cuda._lazy_call(when_cuda_starts)

    def save(self, why):
        """Writes PyTorch's snapshot beside the recording, whole or not at all."""
        try:
            import pickle

            folder = os.environ.get("VRAMSCOPE_SNAPSHOT_DIR") or os.environ["VRAMSCOPE_RING_DIR"]
            path = os.path.join(folder, "%d-%s.pickle" % (os.getpid(), why))
            with open(path + ".part", "wb") as file:
                pickle.dump(self.torch.cuda.memory._snapshot(), file)
            os.replace(path + ".part", path)
        except Exception:
            pass


def _start():
    if os.environ.get("VRAMSCOPE_RING_DIR") and "torch" not in sys.modules:
        sys.meta_path.insert(0, _TorchWatch())


def _chain():
    """Runs the job's own sitecustomize, as if this one were not there."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != here]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    sys.modules["vramscope_hook"] = sys.modules.get(__name__)
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


try:
    _start()
except Exception:
    pass
if __name__ == "sitecustomize":
    _chain()
