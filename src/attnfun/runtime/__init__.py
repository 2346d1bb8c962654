"""RUN: networks evaluated here (`kernels`, `evaluation`) and in other frameworks (`backends`, one a file)."""
