"""A function for confinement that does what it is told, however bad."""

import os
import sys
import time


def obey(argument: bytes) -> bytes:
    match argument:
        case b"loop":
            while True:
                pass
        case b"swell":
            return b"x" * 2**30
        case b"crash":
            os.abort()
        case b"raise":
            raise RuntimeError
        case b"exit":
            sys.exit()
        case b"wait":
            time.sleep(0.3)
            return b"waited"
        case b"pids":
            return f"{os.getpid()} {os.getppid()}".encode()
        case b"environment":
            return " ".join(os.environ).encode()
        case _:
            return argument
