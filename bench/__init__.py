"""The benchmarks: Fencepost beside what it is built on, in turn and on one machine."""
