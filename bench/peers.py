# SPDX-License-Identifier: Apache-2.0
"""NumPy's and PyTorch's side of bench/run.

    peers.py check NAME                      succeeds if the library is there
    peers.py NAME FOLDER THREADS REPS Y.npy  attention of FOLDER's Q.npy, K.npy, V.npy; one line of JSON with the time

NAME: numpy          softmax(QK')V, the whole score matrix at once
      torch          the same
      torch_chunked  512 queries at a time
"""
import json
import sys
import time

CHUNK = 512


def numpy_attention(q, k, v, threads):
    import numpy as np  # its BLAS takes the number of threads from the environment, see bench/run

    scale = q.dtype.type(1 / np.sqrt(q.shape[1]))

    def attend():
        w = (q * scale) @ k.T
        w -= w.max(axis=1, keepdims=True)
        np.exp(w, out=w)
        w /= w.sum(axis=1, keepdims=True)
        return w @ v

    return attend, np.__version__


def torch_attention(q, k, v, threads, chunk=None):
    import torch

    torch.set_num_threads(threads)
    q, k, v = (torch.from_numpy(x) for x in (q, k, v))
    scale = q.shape[1] ** -0.5

    def softmax(part):
        return torch.softmax((part * scale) @ k.T, dim=1) @ v

    @torch.inference_mode()
    def attend():
        if chunk is None:
            return softmax(q).numpy()
        return torch.cat([softmax(part) for part in q.split(chunk)]).numpy()

    return attend, torch.__version__


CONTENDERS = {
    "numpy": numpy_attention,
    "torch": torch_attention,
    "torch_chunked": lambda q, k, v, threads: torch_attention(q, k, v, threads, CHUNK),
}


def main(name, folder, threads, reps, output):
    import numpy as np

    q, k, v = (np.load(f"{folder}/{x}.npy") for x in "QKV")
    attend, version = CONTENDERS[name](q, k, v, int(threads))
    y = attend()  # warm up
    seconds = []
    for _ in range(int(reps)):
        start = time.perf_counter()
        y = attend()
        seconds.append(time.perf_counter() - start)
    np.save(output, y)
    print(json.dumps({"contender": name, "version": version, "seconds": sorted(seconds)[len(seconds) // 2]},
                     separators=(",", ":")))


if __name__ == "__main__":
    if sys.argv[1] == "check":
        import numpy

        if sys.argv[2].startswith("torch"):
            import torch
    else:
        main(*sys.argv[1:])
