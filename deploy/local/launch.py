"""Become another program that ends when its starter does: launch.py SIGNAL STARTER UID GID PROGRAM ARGUMENT...

Run by process.Host with `python -I -S`. A program of its own, since what it does must happen between fork and exec,
where a process with threads may not run Python. The privileges go first: giving them up clears the wish.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    death_signal, starter, uid, gid = map(int, sys.argv[1:5])
    if uid >= 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
    if os.getppid() != starter:  # it ended before the wish was made
        sys.exit(1)
    os.execv(sys.argv[5], sys.argv[5:])


if __name__ == "__main__":
    main()
