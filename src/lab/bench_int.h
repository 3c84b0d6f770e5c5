/* What the parts of the replay bench share: running a program beside a peer. */
#ifndef QUIRE_LAB_BENCH_INT_H
#define QUIRE_LAB_BENCH_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bench_peer { PEER_CACHEGRIND, PEER_LACKEY, NR_PEERS };

extern const char *const bench_peer_names[NR_PEERS];

bool bench_have(const char *program); /* in PATH */

/*
 * Run a program under a peer. client: a shell script that runs beside it, in its own session and not as our child;
 * NULL: none. *ret_ns: user and system time; *ret_refs: data references, from cachegrind (0 from lackey). 0 or
 * -errno.
 */
int bench_run_peer(enum bench_peer peer, char *const *argv, const char *client, uint64_t *ret_ns, uint64_t *ret_refs);
int bench_start_client(const char *script);

/* The median of n values (sorted in place), and the interval of order statistics that holds it with 95 %. */
double bench_median(double *v, size_t n, double *ret_low, double *ret_high);

/* Record redis-server under redis-benchmark into path. 0, or -errno with one line in err. */
#define BENCH_REDIS_SOCKET_MAX 100
struct bench_redis {
	char dir[64], socket[BENCH_REDIS_SOCKET_MAX], trace[BENCH_REDIS_SOCKET_MAX], client[1024];
	char *argv[16];
};
int bench_redis_record(struct bench_redis *r, const volatile bool *stop, char *err, size_t errlen);
void bench_redis_done(struct bench_redis *r);

#endif
