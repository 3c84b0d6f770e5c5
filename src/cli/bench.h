/* The kinds of `quire bench` that have a file of their own. argv[0] is "bench", argv[1] the kind; they return an exit code. */
#ifndef QUIRE_CLI_BENCH_H
#define QUIRE_CLI_BENCH_H

int bench_alloc_command(int argc, char **argv);
int bench_linux_command(int argc, char **argv);

#endif
