"""Stock Debian kernels in QEMU under emulation, for the tests of `tests/kernels`.

Layers, each importing only what stands below it:

    __main__     the command line for developers
    session      the guest's pytest session of one kernel, as outcomes by test id
    machine      one boot: a script and its files go in, status, output and files come out
    initramfs    the first user space: from the kernel's own modules to the root file system
    images       root file systems
    kernels      the catalogue of kernels and how they are had
    apt          the machine's own mirror, asked through a separate configuration
    cache        finished pieces on disk, shared between sessions
    errors       VmError: the one way to fail

Nothing here knows faultprof: the harness carries a source tree into a kernel and runs a script.
"""
