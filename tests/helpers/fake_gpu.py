"""GPUs that this machine need not have: kernels are compiled for them, and not launched."""

from itertools import count

from triton.backends.compiler import GPUTarget

from tailcloud.kernels.compiler_process import Target

number = count()


class FakeGpu(Target):
    """A GPU for which nothing was compiled in this process, whatever others were."""

    def __init__(self, arch=80):
        super().__init__(GPUTarget("cuda", arch, 32))
        self.name = f"fake {next(number)}"

    def get_current_device(self):
        return self.name

    def get_current_stream(self, _device):
        return 0
