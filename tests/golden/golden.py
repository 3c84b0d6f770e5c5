"""What the tests of this directory share: recordings, running the command, and the golden tables.

A table is a JSON object with a line a metric: its value in each row, all zero ones left out, so that a new counter that stays
at zero changes no table. NAME.counters.json holds what the engine counted; NAME.times.json holds what the modelled
machine made of it (times, caches, TLBs, scheduling), which every change of a price shifts.
"""
import glob
import json
import os
import re
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
SHOWN = os.path.relpath(HERE, os.path.join(HERE, "..", ".."))
THP = "transparent_hugepage.enabled=never,always"

# What a table is run with where it is not on the laptop with THP varied: table -> (recording, options).
EXTRA = {
    "threads_2s": ("threads", ["--machine", "xeon-e5-2699v3-2s", "--vary", THP]),
    "fork_cow_copy": ("fork_cow", ["--machine", "laptop", "--vary", "quire.huge_cow=copy,split"]),
    "flush_ceiling": ("threads", ["--machine", "cloud-2cpu", "--set", "transparent_hugepage.enabled=never",
                                  "--vary", "quire.tlb_single_page_flush_ceiling=0,33,100000"]),
    "random_refs_epyc": ("random_refs", ["--machine", "epyc-2s", "--vary", "transparent_hugepage.use_zero_page=0,1"]),
    "mremap_unaligned": ("mremap", ["--machine", "laptop", "--keep-addresses", "--vary", "quire.thp_align_mmap=0,1"]),
    "vfork_exec_twice": ("vfork_exec", ["--machine", "laptop", "--repeat", "2", "--vary", THP]),
}

TIMES = re.compile(r"_ns$|_ns_|_ratio$|^(l1d|l2|llc|dram|prefetches|c2c|remote|coherence|back|walk|tlb|lock|ipis)_|^prefetches$|"
                   r"^(instructions|kernel_touches|context_switches|cpu_migrations|tasks_stolen|fault_retries)$")


def make_recordings(quire, generator, into):
    """Returns {name: path} of all recordings: the texts imported, the others made by the generator."""
    paths = {}
    for text in sorted(glob.glob(os.path.join(HERE, "recordings", "*"))):
        name = os.path.splitext(os.path.basename(text))[0]
        paths[name] = os.path.join(into, name + ".qtr")
        subprocess.run([quire, "trace", "import", "-o", paths[name], text], check=True, stdout=subprocess.DEVNULL)
    made = subprocess.run([generator, into], check=True, stdout=subprocess.PIPE, text=True)
    for name in made.stdout.split():
        paths[name] = os.path.join(into, name + ".qtr")
    return paths


def run_options(table):
    """(recording, options of quire run) of a table."""
    return EXTRA.get(table) or (table, ["--machine", "laptop", "--vary", THP])


def run_json(quire, path, options, env=None, wrapper=()):
    """The bytes of the result."""
    out = subprocess.run([*wrapper, quire, "run", path, *options, "-q", "--json", "-"], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, env=dict(os.environ, **(env or {})), timeout=120)
    if out.returncode:
        raise RuntimeError("quire run %s %s: exit code %d: %s" % (path, " ".join(options), out.returncode,
                                                                  out.stderr.decode(errors="replace").strip()))
    return out.stdout


def tables(quire, paths, table):
    """{"counters": text, "times": text} of one table."""
    name, options = run_options(table)
    rows = json.loads(run_json(quire, paths[name], options))["rows"]
    varied = [" ".join("%s=%s" % s for s in sorted(row["settings"].items())) for row in rows]
    text = {}
    for kind in ("counters", "times"):
        lines = ['"rows": %s' % json.dumps(varied)]
        for metric in sorted(rows[0]["metrics"]):
            values = [row["metrics"].get(metric, 0) for row in rows]
            if any(values) and bool(TIMES.search(metric)) == (kind == "times"):
                lines.append("%s: %s" % (json.dumps(metric), json.dumps(values)))
        text[kind] = "{\n  " + ",\n  ".join(lines) + "\n}\n"
    return text


def table_path(table, kind):
    return os.path.join(HERE, "tables", "%s.%s.json" % (table, kind))


def all_tables(paths):
    return sorted(list(paths) + list(EXTRA))
