"""A worker for peers that Python programs use: see protocol.go."""
import json
import os
import sys
import time

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what libraries print is no answer


def answer(**fields):
    print(json.dumps(fields), file=answers, flush=True)


class Lacking(Exception):
    pass


def split(threads, heads, head):
    """Calls head for each of so many heads, on several threads: NumPy computes without Python's lock."""
    if threads == 1:
        return lambda: [head(i) for i in range(heads)]
    from concurrent.futures import ThreadPoolExecutor
    pool = ThreadPoolExecutor(threads)

    def part(first):
        for i in range(first, heads, threads):
            head(i)

    return lambda: list(pool.map(part, range(threads)))


class Composed:
    """Head by head, with BLAS for the products, buffers that are used again, and some rows at a time, so that their
    scores stay in a cache and causal rows leave out most of what they do not see."""
    rows = 128

    def __init__(self, threads):
        self.threads = threads
        with open("/proc/self/maps") as maps:
            files = {line.split()[-1] for line in maps if "openblas" in line}
        if not files:
            raise Lacking("the BLAS of this NumPy is not OpenBLAS")
        import ctypes
        name = "unknown"
        try:
            config = ctypes.CDLL(sorted(files)[0]).openblas_get_config
            config.restype = ctypes.c_char_p
            name = " ".join(config().decode().split()[1:2])
        except AttributeError:
            pass
        self.version = f"{name} of NumPy {numpy.__version__}"

    def prepare(self, c, q, k, v):
        if c["type"] != "f32":
            raise Lacking("float32 only")
        heads, lk, d, causal = c["batch"] * c["kv_heads"], c["keys"], c["dim"], c.get("causal", False)
        q, k, v = q.reshape(heads, -1, d), k.reshape(heads, lk, d), v.reshape(heads, lk, d)
        q = q * numpy.float32(d ** -0.5)
        out = numpy.empty_like(q)
        all_rows = q.shape[1]
        hidden = numpy.triu(numpy.full((self.rows, self.rows), -numpy.inf, numpy.float32), 1)
        buffers = [numpy.empty(self.rows * lk, numpy.float32) for _ in range(self.threads)]

        def head(h):
            for start in range(0, all_rows, self.rows):
                stop = min(start + self.rows, all_rows)
                keys = min(stop, lk) if causal else lk
                s = buffers[h % self.threads][:(stop - start) * keys].reshape(stop - start, keys)
                numpy.matmul(q[h, start:stop], k[h, :keys].T, out=s)
                if causal:
                    s[:, start:] += hidden[:stop - start, :stop - start]
                s -= s.max(axis=1, keepdims=True)
                numpy.exp(s, out=s)
                total = s.sum(axis=1, keepdims=True)
                o = out[h, start:stop]
                numpy.matmul(s, v[h, :keys], out=o)
                o /= total

        return split(self.threads, heads, head), lambda: out


class WalkThrough:
    """As introductions to attention write it."""

    def __init__(self, threads):
        self.version, self.threads = numpy.__version__, threads

    def prepare(self, c, q, k, v):
        if c["type"] != "f32":
            raise Lacking("float32 only")
        scale = numpy.float32(c["dim"] ** -0.5)
        hidden = numpy.triu(numpy.full((c["queries"], c["keys"]), -numpy.inf, numpy.float32), 1) if c.get("causal") else None
        parts = [[x.reshape(-1, *x.shape[2:])[i::self.threads] for x in (q, k, v)] for i in range(self.threads)]
        out = numpy.empty_like(q)

        def part(i):
            q, k, v = parts[i]
            s = q @ k.swapaxes(-1, -2) * scale
            if hidden is not None:
                s = s + hidden
            p = numpy.exp(s - s.max(axis=-1, keepdims=True))
            out.reshape(-1, *out.shape[2:])[i::self.threads] = p / p.sum(axis=-1, keepdims=True) @ v

        return split(self.threads, self.threads, part), lambda: out


class Torch:
    def __init__(self, threads):
        torch.set_num_threads(threads)
        self.version = f"{torch.__version__}, {torch.backends.cpu.get_cpu_capability()}"

    def prepare(self, c, q, k, v):
        if c["type"] in ("i8", "integers", "i4", "q4_0"):
            raise Lacking("no integers")
        if c["type"] == "f16":
            q, k, v = (x.astype(numpy.float16) for x in (q, k, v))
        q, k, v = (torch.from_numpy(x) for x in (q, k, v))
        result = []

        def call():
            with torch.inference_mode():
                result[:] = [torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=c.get("causal", False))]

        return call, lambda: result[0].float().numpy()


def read(folder, name, *shape):
    return numpy.fromfile(os.path.join(folder, name), "<f4").reshape(shape)


def turn(call, took, flush, seconds):
    """Calls once to get warm, unless that takes longer than a turn, and then for so long, at least once."""
    if took < seconds:
        call()
    times, begin = [], time.perf_counter()
    while not times or time.perf_counter() - begin < seconds:
        if flush is not None:
            flush.max()
        start = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - start)
    return times


def serve(peer):
    call = flush = None
    for line in sys.stdin:
        r = json.loads(line)
        try:
            if c := r.get("case"):
                call = flush = None
                if " " in c["type"]:
                    raise Lacking("no whole models")
                # Query heads that share keys are rows of one head.
                q, k, v = (read(r["dir"], x, c["batch"], c["kv_heads"], -1, c["dim"]) for x in "qkv")
                call, result = peer.prepare(c, q, k, v)
                start = time.perf_counter()
                call()
                took = time.perf_counter() - start
                if c["queries"] == 1:
                    flush = numpy.ones(32 << 20, numpy.float32)
                numpy.asarray(result(), "<f4").tofile(r["output"])
                answer()
            else:
                answer(times=turn(call, took, flush, r["seconds"]))
        except Lacking as e:
            answer(lacking=str(e))
        except Exception as e:
            answer(error=f"{type(e).__name__}: {e}")


name, threads = sys.argv[1], int(sys.argv[2])
try:
    import numpy
    if name == "torch":
        import torch
    peer = {"torch": Torch, "openblas": Composed, "numpy": WalkThrough}[name](threads)
    answer(version=peer.version)
except (ImportError, Lacking) as e:
    answer(lacking=str(e))
else:
    serve(peer)
