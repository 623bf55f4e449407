"""Kernels for the notebooks that are forked from a process which has imported what pages import.

A notebook has a kernel of its own, in which nothing of another one is left; but Python, SymPy and
PyTorch are loaded once for all of them, which is most of what a short page takes. Where the system
cannot fork, kernels start as usual.
"""

import multiprocessing
import os
import signal
import sys

# What most pages import. Not the backend of the pictures, which looks for its kernel when loaded.
IMPORTS = ("ipykernel.kernelapp", "ipykernel.zmqshell", "matplotlib.pyplot", "sympy", "torch")
OURS = ("normlib.evidence", "normbook.claims", "normbook.show", "normbook.lab.training")
BACKEND = "module://matplotlib_inline.backend_inline"  # read when matplotlib is imported


class Kernel:
    """What jupyter_client asks of the process of a kernel."""

    stdin = stdout = stderr = None

    def __init__(self, command, cwd, env):
        context = multiprocessing.get_context("forkserver")
        ready, told = context.Pipe(duplex=False)
        path = [p for p in sys.path if p.startswith((sys.prefix, sys.base_prefix))]
        path = [*filter(None, env.get("PYTHONPATH", "").split(os.pathsep)), *path]
        file = command[command.index("-f") + 1]
        given = file, cwd, env | {"JPY_PARENT_PID": str(os.getpid())}, path, told
        self.process = context.Process(target=run, args=given)  # no daemon: pages start some, too
        self.process.start()
        self.pid = ready.recv()

    def poll(self):
        return self.process.exitcode

    def wait(self):
        self.process.join()
        return self.process.exitcode

    def send_signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    terminate = kill


def run(file, cwd, env, path, told):
    """Be a kernel. In a group of its own, since signals for a kernel go to its group."""
    os.setsid()
    told.send(os.getpid())
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.path[:] = path
    sys.argv[:] = ["kernel"]
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    from ipykernel import kernelapp

    kernelapp.launch_new_instance(argv=["-f", file])


def launch(cmd, cwd=None, env=None, **_):
    return Kernel(cmd, cwd or os.getcwd(), os.environ | (env or {}) | {"MPLBACKEND": BACKEND})


def install():
    """Let every kernel that this process starts be forked."""
    if sys.platform != "linux":
        return
    from jupyter_client.provisioning import local_provisioner

    os.environ.setdefault("MPLBACKEND", BACKEND)
    multiprocessing.get_context("forkserver").set_forkserver_preload([*IMPORTS, *OURS])
    local_provisioner.launch_kernel = launch
